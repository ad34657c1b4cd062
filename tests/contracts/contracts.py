"""The contracts that every registered loss keeps, one function each.

A contract takes an entry of the registry and one of its forms and raises AssertionError if the
loss breaks it. A loss opts out in its own file, ``exempt={"contract": reason}`` for all of its
forms or ``exempt={"contract:form": reason}`` for one; the tests see to it that the reason is still
true. Contracts about the entry as a whole are marked ``once`` and run for its first form only.
"""

from __future__ import annotations

import doctest
import inspect
import io
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.module import Loss
from similis.objective.references import Block, batch_references
from similis.registry import LossEntry
from similis.values import UserError
from tests.batches import random_batch
from tests.proof import CLASSES, DIM, agreement, build, make, proof_of, zero

EXACT = 1e-10  # float64, the same mathematics in another order
# Half precision is widened at the door, so only the rounding of float32 is left. One bfloat16
# product inside would cost 4e-3, and a scale of 32 in an exponent would make 12 % of it.
HALF = 1e-3
SEEDS = (0, 1, 2)
BY_CLASS = ("proxy", "classification")


class Contract(NamedTuple):
    """A check with its name; ``once`` if it concerns the entry and not a form."""

    name: str
    check: Callable[[LossEntry, str], None]
    once: bool
    slow: bool


CONTRACTS: dict[str, Contract] = {}


def contract(once: bool = False, slow: bool = False) -> Callable[[Callable[[LossEntry, str], None]], Callable]:
    """List the decorated function under its own name."""

    def enlist(check: Callable[[LossEntry, str], None]) -> Callable[[LossEntry, str], None]:
        CONTRACTS[check.__name__] = Contract(check.__name__, check, once, slow)
        return check

    return enlist


def exemption(entry: LossEntry, form: str, name: str) -> str | None:
    """The reason why this form does not keep the contract; None if it must."""
    return entry.exempt.get(name) or entry.exempt.get(f"{name}:{form}")


def results(made: Loss | Callable, x: Tensor, labels: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """Value, gradient of the embeddings, gradients of the parameters (zeros where unused)."""
    x = x.detach().clone().requires_grad_()
    value = made(x, labels)
    found = torch.autograd.grad(value, [x, *parameters], allow_unused=True)
    return [value.detach(), *(zero(g, like) for g, like in zip(found, [x, *parameters], strict=True))]


def of(made: Loss, x: Tensor, labels: Tensor) -> list[Tensor]:
    """Results of a loss with all of its parameters."""
    return results(made, x, labels, list(made.parameters()))


def assert_same(got: list[Tensor], want: list[Tensor], what: str, tolerance: float = EXACT) -> None:
    """Equal up to ``tolerance`` relative to the larger of 1 and the wanted size."""
    assert len(got) == len(want), f"{what}: {len(got)} results instead of {len(want)}"
    for place, (a, b) in enumerate(zip(got, want, strict=True)):
        gap = float((a.double() - b.double()).abs().max()) / max(1.0, float(b.double().abs().max()))
        part = "value" if place == 0 else f"gradient {place}"
        assert gap <= tolerance, f"{what}: {part} differs by {gap:.1e}, more than {tolerance:.0e}"


@contract()
def oracle(entry: LossEntry, form: str) -> None:
    """Value and gradients are those of the plain loops in the loss's test file."""
    try:
        known = proof_of(entry.name).ORACLES
    except (ModuleNotFoundError, AttributeError) as error:
        raise AssertionError(f"the oracles of {entry.name} are missing: {error}") from error
    assert form in known, f"tests/objective/losses/test_{entry.name}.py has no ORACLES[{form!r}]"
    for seed in SEEDS:
        for duplicates in (True, False):
            value, gradient = agreement(entry, form, known[form], seed, duplicates)
            assert value <= EXACT, f"seed {seed}, duplicates {duplicates}: value is off by {value:.1e}"
            assert gradient <= EXACT, f"seed {seed}, duplicates {duplicates}: gradient is off by {gradient:.1e}"


@contract()
def gradcheck(entry: LossEntry, form: str) -> None:
    """The gradient is the derivative of the value, for embeddings and parameters."""
    x, labels = random_batch(0, DIM, duplicates=False)
    made = build(entry, form)
    names = [name for name, _ in made.named_parameters()]

    def value(embeddings: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(made, dict(zip(names, parameters, strict=True)), (embeddings, labels))

    inputs = [t.detach().clone().requires_grad_() for t in (x, *made.parameters())]
    try:
        torch.autograd.gradcheck(value, inputs, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=True)
    except RuntimeError as error:  # GradcheckError is one
        raise AssertionError(str(error)) from error


@contract()
def permutation(entry: LossEntry, form: str) -> None:
    """The order of the samples means nothing."""
    for seed in SEEDS:
        x, labels = random_batch(seed, DIM, duplicates=False)
        made = build(entry, form, seed)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        want, got = of(made, x, labels), of(made, x[order], labels[order])
        want[1] = want[1][order]
        assert_same(got, want, f"samples in another order, seed {seed}")


@contract()
def renaming(entry: LossEntry, form: str) -> None:
    """Class ids are names: large and negative ones give what 0 to C - 1 give."""
    x, labels = random_batch(0, DIM)
    made = build(entry, form)
    want = of(made, x, labels)
    for first in (2**24 + 1, 2**53 + 1, -9):
        ids = torch.arange(first, first + CLASSES)
        other = build(entry, form, class_ids=ids.tolist()) if made.learned else made
        assert_same(of(other, x, ids[labels]), want, f"class ids from {first}")
    if not made.learned:  # names have no order either; rows of parameters do
        assert_same(of(made, x, 2**53 + 7 - labels), want, "class ids in falling order")


@contract()
def rotation(entry: LossEntry, form: str) -> None:
    """Embeddings and class vectors rotated together keep the value; gradients rotate along."""
    x, labels = random_batch(1, DIM)
    generator = torch.Generator().manual_seed(5)
    turn = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator, dtype=torch.float64)).Q
    made, turned = build(entry, form, 1), build(entry, form, 1)
    vectors = [value.ndim >= 2 and value.shape[-1] == DIM for value in made.parameters()]
    with torch.no_grad():
        for value, is_vector in zip(turned.parameters(), vectors, strict=True):
            value.copy_(value @ turn if is_vector else value)
    want = of(made, x, labels)
    want = [g @ turn if turns else g for g, turns in zip(want, [False, True, *vectors], strict=True)]
    assert_same(of(turned, x @ turn, labels), want, "rotated")


@contract()
def scale(entry: LossEntry, form: str) -> None:
    """A loss that says it puts embeddings on the unit sphere does not see their lengths."""
    if entry.input != "unit":
        return
    x, labels = random_batch(2, DIM)
    made = build(entry, form, 2)
    lengths = torch.linspace(0.25, 40.0, len(x), dtype=torch.float64)[:, None]
    want, got = of(made, x, labels), of(made, x * lengths, labels)
    got[1] = got[1] * lengths
    assert_same(got, want, "other lengths")


def degenerate_batches() -> dict[str, tuple[Tensor, Tensor]]:
    """Batches in which a set, or every difference, is missing."""
    x, _ = random_batch(0, DIM, duplicates=False)
    mixed = torch.tensor([0, 0, 1, 1, 2, 2])
    return {
        "no positives": (x[:4], torch.arange(4)),
        "one class": (x[:6], torch.ones(6, dtype=torch.int64)),
        "one sample": (x[:1], torch.zeros(1, dtype=torch.int64)),
        "no samples": (x[:0], torch.zeros(0, dtype=torch.int64)),
        "equal rows": (x[:1].expand(6, -1), mixed),
        "equal rows of one class": (x[:1].expand(6, -1), torch.ones(6, dtype=torch.int64)),
        "rows of zeros": (torch.zeros_like(x[:6]), mixed),
    }


@contract()
def degenerate(entry: LossEntry, form: str) -> None:
    """Poor batches give a finite value that is attached to the graph, and finite gradients."""
    for what, (rows, labels) in degenerate_batches().items():
        for dtype in (torch.float64, torch.float32):
            made = build(entry, form, dtype=dtype)
            x = rows.detach().to(dtype).clone().requires_grad_()
            value = made(x, labels)
            assert value.isfinite(), f"{what}, {dtype}: value is {value.item()}"
            assert value.requires_grad, f"{what}, {dtype}: value has no way back to the embeddings"
            value.backward()
            for name, tensor in [("embeddings", x), *made.named_parameters()]:
                assert tensor.grad is not None, f"{what}, {dtype}: no gradient for {name}"
                assert tensor.grad.isfinite().all(), f"{what}, {dtype}: gradient of {name} is not finite"


@contract()
def half(entry: LossEntry, form: str) -> None:
    """Autocast and half-precision inputs give what float32 gives; parameters stay float32."""
    x, labels = random_batch(0, DIM)
    made = build(entry, form, dtype=torch.float32)

    def cast(embeddings: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return made(embeddings, labels)

    def assert_kept(got: list[Tensor], want: list[Tensor], what: str) -> None:
        assert all(t.isfinite().all() for t in got), f"{what}: not finite"
        rounded = [w.to(g.dtype) for g, w in zip(got, want, strict=True)]  # a gradient has the type of its tensor
        assert_same(got, rounded, what, HALF if got[1].dtype == torch.float32 else 10 * HALF)
        assert all(p.dtype == torch.float32 for p in made.parameters()), f"{what}: parameters changed their type"

    own = list(made.parameters())
    assert_kept(results(cast, x.float(), labels, own), of(made, x.float(), labels), "autocast bfloat16")
    for dtype in (torch.float16, torch.bfloat16):
        assert_kept(of(made, x.to(dtype), labels), of(made, x.to(dtype).float(), labels), f"{dtype} embeddings")


def compiled(entry: LossEntry, form: str, backend: str, dtype: torch.dtype, tolerance: float) -> None:
    """One graph, and the same results as without it."""
    x, labels = random_batch(0, DIM)
    made = build(entry, form, dtype=dtype)
    want = of(made, x.to(dtype), labels)
    torch._dynamo.reset()
    try:
        fast = torch.compile(made, fullgraph=True, backend=backend)
        got = results(fast, x.to(dtype), labels, list(made.parameters()))
    except Exception as error:  # whatever the compiler raises, the loss does not compile
        raise AssertionError(f"{backend}: {type(error).__name__}: {error}") from error
    finally:
        torch._dynamo.reset()
    assert_same(got, want, f"compiled by {backend}", tolerance)


@contract()
def compile(entry: LossEntry, form: str) -> None:  # noqa: A001
    """Compiles to one graph with unchanged value and gradients."""
    compiled(entry, form, "aot_eager", torch.float64, EXACT)


@contract(slow=True)
def inductor(entry: LossEntry, form: str) -> None:
    """The same with generated kernels, in float32."""
    compiled(entry, form, "inductor", torch.float32, 1e-4)


@contract()
def state(entry: LossEntry, form: str) -> None:
    """A saved and loaded state is the whole of what the loss knows."""
    x, labels = random_batch(0, DIM)
    ids = [3, 5, 8, 13]
    labels = torch.tensor(ids)[labels]
    first = build(entry, form, 0, class_ids=ids)
    want = of(first, x, labels)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = build(entry, form, 1, class_ids=ids)
    second.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert_same(of(second, x, labels), want, "after a round trip of the state", 0.0)


@contract()
def gradient(entry: LossEntry, form: str) -> None:
    """Every learned parameter is learned: it gets a gradient and the declared learning rate."""
    made = build(entry, form)
    reached = dict.fromkeys(made.learned, False)
    for seed in SEEDS:
        made = build(entry, form, seed)
        made(*random_batch(seed, DIM)).backward() if reached else None
        for name, value in made.learned.items():
            reached[name] |= value.grad is not None and bool(value.grad.abs().sum() > 0)
    assert all(reached.values()), f"no gradient in three batches: {[n for n, ok in reached.items() if not ok]}"
    groups = made.parameter_groups(0.5)
    members = [id(p) for group in groups for p in group["params"]]
    assert sorted(members) == sorted(id(p) for p in made.learned.values()), "parameter_groups miss or repeat one"
    assert all(group["lr"] == 0.5 * entry.lr_multiplier for group in groups), "parameter_groups lack the multiplier"


@contract(once=True)
def docstring(entry: LossEntry, form: str) -> None:
    """Formula, arguments, shapes, advice, reference and an example that runs."""
    text = inspect.getdoc(entry.function) or ""
    for part in (".. math::", "Args:", "Shapes:", "When to use:", "Reference:", "Example:", ">>>"):
        assert part in text, f"the docstring of {entry.name} lacks {part!r}"
    arguments = text.partition("Args:")[2].partition("Shapes:")[0]
    for name in inspect.signature(entry.function).parameters:
        assert f"\n    {name}:" in arguments, f"the docstring of {entry.name} does not explain {name}"
    names = dict(vars(sys.modules[entry.function.__module__]))
    test = doctest.DocTestParser().get_doctest(text, names, entry.name, None, 0)
    said: list[str] = []
    found = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert found.failed == 0, "".join(said)


@contract(once=True)
def presets(entry: LossEntry, form: str) -> None:
    """Each preset names its source, builds and runs."""
    x, labels = random_batch(0, DIM)
    for name, preset in entry.presets.items():
        assert preset.source.strip(), f"preset {name} has no source"
        unknown = set(preset.options) - set(entry.options)
        assert not unknown, f"preset {name} sets {unknown}, which {entry.name} does not have"
        try:
            made = make(entry, preset=name).double()
        except UserError as error:
            raise AssertionError(f"preset {name} cannot be built: {error}") from error
        value, *gradients = of(made, x, labels)
        assert value.isfinite(), f"preset {name}: value is {value.item()}"
        assert all(g.isfinite().all() for g in gradients), f"preset {name}: gradients are not finite"


def relation_of(entry: LossEntry, labels: Tensor) -> Tensor:
    """Labels as a 0/1 matrix: samples x classes for losses of classes, else samples x samples."""
    if entry.family in BY_CLASS:
        return torch.nn.functional.one_hot(labels, CLASSES)
    return (labels[:, None] == labels[None, :]).long()


@contract()
def relation(entry: LossEntry, form: str) -> None:
    """A 0/1 matrix means what labels mean; grades count only where that is declared."""
    x, labels = random_batch(0, DIM)
    made, matrix = build(entry, form), relation_of(entry, labels)
    if entry.relation == "none":
        try:
            made(x, matrix)
        except UserError:
            return
        raise AssertionError("a relation is accepted without being declared")
    want = of(made, x, labels)
    for dtype in (torch.int64, torch.float64, torch.bool):
        assert_same(of(made, x, matrix.to(dtype)), want, f"relation as {dtype}")
    places = torch.arange(matrix.numel(), dtype=torch.float64).view_as(matrix)
    graded = matrix * (0.3 + 0.6 * (0.7 * places).sin().square())  # differs within rows and within columns
    blind = all(torch.allclose(a, b, atol=EXACT) for a, b in zip(of(made, x, graded), want, strict=True))
    assert blind == (entry.relation == "sets"), (
        f"grades {'do not ' if blind else ''}count in a {entry.relation} relation"
    )


def remembering(made: Loss, seed: int, order: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss with eleven rows of memory in that order; five of them are images of the batch."""
    old, old_labels = random_batch(seed + 10, DIM)
    ids = torch.arange(11) + 105
    rows = Block(old[order], old_labels[order], own=torch.arange(11) + 100, ids=ids[order])
    return lambda x, y: made(x, y, references=batch_references(x, y, rows))


@contract()
def memory(entry: LossEntry, form: str) -> None:
    """Where a memory is declared it takes part, in any order; elsewhere it is refused."""
    order, changed = torch.arange(11), False
    for seed in SEEDS:
        x, labels = random_batch(seed, DIM)
        made = build(entry, form, seed)
        if not entry.memory:
            try:
                remembering(made, seed, order)(x, labels)
            except UserError:
                return
            raise AssertionError("a memory is accepted without being declared")
        parameters = list(made.parameters())
        got = results(remembering(made, seed, order), x, labels, parameters)
        assert all(t.isfinite().all() for t in got), f"memory, seed {seed}: not finite"
        other = results(remembering(made, seed, order.flip(0)), x, labels, parameters)
        assert_same(other, got, "memory in another order")
        changed |= not torch.allclose(got[0], of(made, x, labels)[0])
    assert changed, "a memory is accepted and ignored"


@contract(once=True)
def metadata(entry: LossEntry, form: str) -> None:
    """The registry's facts are complete and fit the signature."""
    for name in ("paper", "network", "weight", "geometry"):
        assert getattr(entry, name).strip(), f"{entry.name} has no {name}"
    assert entry.cost.time.strip(), f"{entry.name} has no time in its cost"
    assert entry.cost.memory.strip(), f"{entry.name} has no memory in its cost"
    assert entry.name == entry.function.__name__, f"{entry.name} is not the name of its function"
    assert entry.lr_multiplier > 0, f"lr_multiplier is {entry.lr_multiplier}"
    options, signature = entry.options, inspect.signature(entry.function).parameters
    for name, value in options.items():
        allowed = value is None or isinstance(value, bool | int | float | str | tuple)
        assert allowed, f"the default of {name} is a {type(value).__name__}; options are plain values"
    for name, known in entry.forms.items():
        assert set(known) <= set(options), f"form {name} sets {set(known) - set(options)}"
    for name, reach in entry.space.items():
        assert name in options, f"the search space names {name}, which is no option of {entry.name}"
        assert -math.inf < reach.low < reach.high < math.inf, f"the range of {name} is {reach}"
        assert not reach.log or reach.low > 0, f"the range of {name} is logarithmic and starts at {reach.low}"
    for name in entry.learns:
        assert name in signature, f"{entry.name} learns {name}, which is no argument of it"
    assert (entry.accepts is not None) == ("tuples" in signature), "accepts= and the argument tuples do not agree"
    assert (entry.accepts is not None) == bool(entry.cost.tuples), "accepts= and the cost of tuples do not agree"
    assert not entry.memory or "references" in signature, "memory is declared without an argument references"


@contract()
def labels(entry: LossEntry, form: str) -> None:
    """Integers of any width are labels; floating point numbers are refused."""
    x, y = random_batch(0, DIM)
    made = build(entry, form)
    want = of(made, x, y)
    for dtype in (torch.int32, torch.uint8):
        assert_same(of(made, x, y.to(dtype)), want, f"labels as {dtype}")
    for loss in (made, build(entry, form, class_ids=range(CLASSES))):
        try:
            loss(x, y.double())
        except UserError:
            continue
        raise AssertionError("labels in floating point are accepted")
