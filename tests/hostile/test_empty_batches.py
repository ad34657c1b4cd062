"""Batches of no samples: every loss, miner and wrapper gives an attached 0, and gradients of 0 to all it trains."""

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.registry import losses, miners
from similis.values import Counts, Pairs, Triplets
from tests.batches import random_batch
from tests.contracts.contracts import relation_of
from tests.hostile.attacks import BACKENDS, every_backend, every_form
from tests.hostile.wrapped import WRAPPERS
from tests.proof import CLASSES, DIM, build

NOTHING = torch.zeros(0, dtype=torch.int64)


def check_zero(made, labels=NOTHING, dtype=torch.float64, **given):
    """The loss of no samples is 0, attached to embeddings and parameters, with gradients of 0."""
    made = made.to(dtype)
    x = torch.zeros(0, DIM, dtype=dtype, requires_grad=True)
    value = made(x, labels, **given)
    assert value.shape == ()
    assert value.item() == 0
    value.backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, f"no gradient for {name}"
        assert float(parameter.grad.to_dense().abs().sum()) == 0, f"a gradient for {name}"


@every_backend
@every_form
def test_losses(entry, form, backend):
    with BACKENDS[backend]():
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            check_zero(build(entry, form), dtype=dtype)
        if entry.relation != "none":
            check_zero(build(entry, form), labels=relation_of(entry, NOTHING))
        if entry.accepts:
            kind, count = {"pairs": (Pairs, 4), "triplets": (Triplets, 3)}[entry.accepts]
            check_zero(build(entry, form), tuples=kind(*[NOTHING] * count))


@pytest.mark.parametrize("miner", list(miners), ids=lambda miner: miner.name)
def test_miners(miner):
    nothing = torch.zeros(0, 0, dtype=torch.bool)
    given = {"dim": DIM} if "dim" in miner.options else {}
    assert miner.function(nothing.double(), nothing, nothing, **given).counts() == Counts(0, 0)
    for entry in losses:
        if entry.accepts == miner.returns:
            made = loss(entry.name, num_classes=CLASSES, dim=DIM, miner=miner.name)
            check_zero(made)
            assert made.mined == Counts(0, 0)


EVERY = WRAPPERS | {"nested centres": lambda: Nested(loss("soft_triple", num_classes=CLASSES, dim=DIM), (2, DIM))}


@pytest.mark.parametrize("name", EVERY)
def test_wrappers(name):
    check_zero(EVERY[name]())


def test_a_memory_that_is_filled_is_not_the_batch():
    x, labels = random_batch(0, DIM)
    made = CrossBatchMemory(loss("contrastive"), size=20, dim=DIM).double()
    made(x, labels)
    check_zero(made)
    assert len(made) == len(x)
    check_zero(made)
    assert len(made) == len(x), "no samples were remembered"


@pytest.mark.parametrize("name", ["supcon", "proxy_anchor", "soft_triple", "triplet"])
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled(name):
    made = torch.compile(loss(name, num_classes=CLASSES, dim=DIM), fullgraph=True, backend="eager")
    check_zero(made)
