"""The contracts on how a loss is used: state, parameters, documentation, relations, memory, labels."""

import doctest
import inspect
import io
import math
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from similis.objective.loss import Loss
from similis.objective.references import Block, batch_references
from similis.registry import LossEntry
from similis.values import UserError
from tests.batches import random_batch
from tests.contracts.mechanism import BY_CLASS, EXACT, SEEDS, assert_same, contract, of, results
from tests.proof import CLASSES, DIM, build, make


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
    """Formula, arguments, shapes, advice and an example that runs; the paper and the cost in the registry alone."""
    text = inspect.getdoc(entry.function) or ""
    for part in (".. math::", "Args:", "Shapes:", "When to use:", "Example:", ">>>"):
        assert part in text, f"the docstring of {entry.name} lacks {part!r}"
    for part in ("Reference:", "Cost:") if entry.function.__module__.startswith("similis.") else ():
        assert part not in text, f"the docstring of {entry.name} repeats what register_loss says: {part}"
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
    for dtype in (torch.int32, torch.uint8, torch.uint64):
        assert_same(of(made, x, y.to(dtype)), want, f"labels as {dtype}")
    for loss in (made, build(entry, form, class_ids=range(CLASSES))):
        try:
            loss(x, y.double())
        except UserError:
            continue
        raise AssertionError("labels in floating point are accepted")
