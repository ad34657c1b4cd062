"""Each contract catches a loss that breaks it, and no other contract cries with it.

The broken losses are copies of triplet and ProxyAnchor with one deliberate fault. The oracle
contract is not asked about the others' faults: nearly every one of them changes the value.
"""

import functools
import inspect
from dataclasses import replace

import pytest
import torch

from similis.objective.comparison.proxies import one_per_class
from similis.objective.losses.proxy_anchor import proxy_anchor
from similis.objective.losses.triplet import triplet
from similis.registry import Cost, Preset, Range, losses
from similis.sphere import unit, widen
from tests.contracts.contracts import CONTRACTS
from tests.contracts.test_losses import test_an_exemption_is_stated_and_still_needed as check_exemption

FAULTS = []


def fault(contract, base=triplet, **traits):
    """List the decorated function as a copy of ``base`` that breaks ``contract``."""

    def enlist(function):
        FAULTS.append(pytest.param(contract, copy_of(base, function, **traits), id=f"{contract}-{function.__name__}"))
        return function

    return enlist


def copy_of(base, function, **traits):
    """The entry of ``base``, computed by ``function`` under the same name, signature and docstring."""
    entry = losses.get(base.__name__)
    first = next(iter(entry.forms))
    same = functools.wraps(base)(functools.partial(function)) if function is not base else base
    return replace(entry, **{"function": same, "forms": {first: entry.forms[first]}, "presets": {}, **traits})


def failures(entry, names):
    """The contracts among ``names`` that the entry breaks, by an AssertionError and nothing else."""
    found = set()
    for name in names:
        try:
            CONTRACTS[name].check(entry, next(iter(entry.forms)))
        except AssertionError:
            found.add(name)
    return found


def cosines_with_mean(x):
    """Cosine of each row with the mean direction: blind to rotations and lengths."""
    return (unit(x) * unit(unit(x).mean(0))).sum(-1)


@fault("oracle")
def a_little_too_large(x, labels, **options):
    return triplet(x, labels, **options) * (1 + 1e-6)


@fault("gradcheck")
def half_of_the_product_detached(x, labels, **options):
    value = triplet(x, labels, **options)
    return value * value.detach()


@fault("permutation")
def weighs_by_position(x, labels, **options):
    position = torch.arange(len(x), dtype=torch.float32)
    return triplet(x, labels, **options) + (position * cosines_with_mean(x)).mean()


@fault("renaming")
def ids_through_float32(x, labels, **options):
    names = labels.float().to(labels.dtype) if labels.ndim == 1 else labels
    return triplet(x, names, **options)


@fault("renaming", relation="none")
def prefers_the_lowest_id(x, labels, **options):
    lowest = labels.long() == labels.long().min()
    return triplet(x, labels, **options) + (lowest * cosines_with_mean(x)).mean()


@fault("rotation")
def looks_at_one_coordinate(x, labels, **options):
    return triplet(x, labels, **options) + unit(x)[:, 0].mean()


@fault("scale", proxy_anchor)
def sees_raw_lengths(x, labels, proxies, **options):
    return proxy_anchor(x, labels, proxies, **options) + 0.01 * widen(x).square().sum(-1).mean()


@fault("degenerate", relation="none")
def mean_over_no_positives(x, labels, **options):
    same = (labels[:, None] == labels[None, :]) & ~torch.eye(len(x), dtype=torch.bool)
    cosines = (unit(x)[:, None] * unit(x)[None]).sum(-1)
    return triplet(x, labels, **options) - (cosines * same).sum() / same.sum()


@fault("degenerate")
def constant_for_one_sample(x, labels, **options):
    return torch.zeros(()) if len(x) == 1 else triplet(x, labels, **options)


@fault("degenerate")
def infinite_slope_at_equal_rows(x, labels, **options):
    spread = (1 - cosines_with_mean(x)).clamp(min=0)
    return triplet(x, labels, **options) + spread.mean().sqrt()


@fault("half")
def exponents_in_the_type_of_the_input(x, labels, **options):
    directions = torch.nn.functional.normalize(x, dim=-1)
    nearness = (directions * directions.mean(0)).sum(-1)
    return triplet(x, labels, **options) + (30 * nearness).exp().sum().log1p()


@fault("half")
def products_under_autocast(x, labels, **options):
    return triplet(x, labels, **options) + 32 * (unit(x) @ unit(x).T).square().mean()


@fault("compile")
def decides_by_the_value(x, labels, **options):
    value = triplet(x, labels, **options)
    return value if value.item() > -1 else -value


HIDDEN = {}


def hidden_start(size):
    HIDDEN["offset"] = torch.randn((), generator=size.generator)
    return one_per_class()(size)


@fault("state", proxy_anchor, learns={"proxies": hidden_start})
def keeps_a_number_outside(x, labels, proxies, **options):
    return proxy_anchor(x, labels, proxies, **options) + HIDDEN["offset"]


def with_argument(function, name):
    """Give the function one more argument, in signature and docstring."""
    old = inspect.signature(function)
    extra = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
    function.__signature__ = old.replace(parameters=[*old.parameters.values(), extra])
    function.__doc__ = function.__doc__.replace("    Shapes:", f"        {name}: of no use.\n\n    Shapes:", 1)


@fault("gradient", learns={"ghost": lambda size: torch.ones(3)})
def learns_what_it_does_not_use(x, labels, ghost, **options):
    return triplet(x, labels, **options) + 0.0 * ghost.sum()


with_argument(FAULTS[-1].values[1].function, "ghost")


@fault("docstring")
def has_no_formula(x, labels, **options):
    return triplet(x, labels, **options)


FAULTS[-1].values[1].function.__doc__ = triplet.__doc__.replace(".. math::", "")


@fault("docstring")
def has_a_wrong_example(x, labels, **options):
    return triplet(x, labels, **options)


FAULTS[-1].values[1].function.__doc__ = triplet.__doc__.replace("3.0\n", "4.0\n")


@fault("relation")
def reads_the_relation_upside_down(x, labels, **options):
    return triplet(x, labels if labels.ndim == 1 else (labels == 0).fill_diagonal_(True), **options)


@fault("memory")
def forgets_the_memory(x, labels, references=None, **options):
    return triplet(x, labels, **options)


@fault("labels")
def takes_any_number_as_label(x, labels, **options):
    return triplet(x, labels.long() if labels.ndim == 1 else labels, **options)


def listed_fault(contract, why, base=triplet, **traits):
    FAULTS.append(pytest.param(contract, copy_of(base, base, **traits), id=f"{contract}-{why}"))


listed_fault("presets", "gives_nan", presets={"paper": Preset({"margin": float("nan")}, "nowhere")})
listed_fault("presets", "unknown_miner", presets={"paper": Preset({}, "nowhere", miner="gold_digger")})
listed_fault("presets", "no_source", presets={"paper": Preset({}, " ")})
listed_fault("relation", "grades_declared_and_ignored", relation="graded")
listed_fault("metadata", "no_paper", paper="")
listed_fault("metadata", "no_cost", cost=Cost(time="B", memory=""))
listed_fault("metadata", "space_of_no_option", space={"margins": Range(0.0, 1.0)})
listed_fault("metadata", "no_mined_tuples", accepts=None)

SCANNED = [name for name in CONTRACTS if name not in ("oracle", "compile", "inductor")]


@pytest.mark.parametrize(("contract", "entry"), FAULTS)
def test_the_fault_is_caught_by_its_contract_alone(contract, entry):
    assert failures(entry, {contract, *SCANNED}) == {contract}


def test_every_contract_has_a_fault():
    assert {case.values[0] for case in FAULTS} == set(CONTRACTS) - {"inductor"}


def test_the_inductor_contract_catches_what_does_not_compile():
    entry = copy_of(triplet, decides_by_the_value)
    assert failures(entry, ["inductor"]) == {"inductor"}


def test_an_oracle_must_exist_for_every_form():
    entry = replace(losses.get("triplet"), forms={"unheard_of": {}})
    assert failures(entry, ["oracle"]) == {"oracle"}
    assert failures(replace(entry, name="nowhere"), ["oracle"]) == {"oracle"}


@pytest.mark.parametrize("key", ["permutatoin", "permutation:sine", "permutation", "permutation:cosine"])
def test_a_needless_or_unknown_exemption_is_refused(key):
    entry = replace(losses.get("triplet"), exempt={key: "The order of samples matters here."})
    with pytest.raises(AssertionError):
        check_exemption(entry, key)


def test_an_exemption_that_is_needed_passes_with_a_reason_only():
    key = "permutation:cosine"
    entry = copy_of(triplet, weighs_by_position, exempt={key: "It weighs samples by their position."})
    check_exemption(entry, key)
    with pytest.raises(AssertionError, match="no sentence"):
        check_exemption(replace(entry, exempt={key: "because"}), key)


def test_a_broken_entry_leaves_no_trace_in_the_registry():
    known = {entry.name: entry for entry in losses}
    failures(copy_of(triplet, a_little_too_large), ["permutation"])
    failures(replace(losses.get("triplet"), name="stranger"), ["permutation"])
    assert {entry.name: entry for entry in losses} == known
