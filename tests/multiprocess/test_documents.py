"""N processes compute what one process computes for queries, documents and hard negatives of all of them."""

from __future__ import annotations

import pytest
import torch

from similis.objective.context import distributed, tiles
from similis.registry import losses
from tests.multiprocess.agreement import gap
from tests.objective.test_documents import TWO_SIDED
from tests.proof import build

ROWS, COLUMNS, SHARED = {2: (5, 3), 4: (3, 1, 4, 0)}, {2: (4, 6), 4: (2, 5, 1, 2)}, {2: (0, 3), 4: (1, 2, 0, 0)}
LABELS = torch.tensor([0, 2, 1, 0, 3, 1, 2, 3])
NAMES = torch.tensor([1, 0, 0, 2, 3, 1, 3, 2, 0, 3])
CASES = [each.values for each in TWO_SIDED]


def sides():
    generator = torch.Generator().manual_seed(0)
    shapes = ((8, 5), (10, 5), (3, 5), (8, 2, 5))
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def results(made, tensors, own, labels, names, paired):
    """Value, and gradients of what is given and of what is learned."""
    queries, documents, shared, private = (x.clone().requires_grad_() for x in tensors)
    if paired:
        value = made(queries, documents=documents, negatives=private if own else shared)
    else:
        value = made(queries, labels, documents=documents, document_labels=names, negatives=private if own else shared)
    leaves = [queries, documents, private if own else shared, *made.parameters()]
    found = torch.autograd.grad(value, leaves, allow_unused=True)
    return [value.detach(), *(torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True))]


def share(communicator, work):
    """Each case with the rows of this rank."""
    rank, world = communicator.rank, communicator.world
    found = []
    for name, form, own, paired, tile in work:
        counts = (ROWS[world], ROWS[world] if paired else COLUMNS[world], SHARED[world], ROWS[world])
        tensors = [x[: sum(c)].split(c)[rank] for x, c in zip(sides(), counts, strict=True)]
        labels, names = LABELS.split(ROWS[world])[rank], NAMES.split(COLUMNS[world])[rank]
        with distributed(communicator), tiles(*tile) if tile else distributed(communicator):
            found.append(results(build(losses.get(name), form), tensors, own, labels, names, paired))
    return found


def assert_equal(ranks, work):
    world = ranks.number
    answers = ranks.call(share, work)
    for place, (name, form, own, paired, _) in enumerate(work):
        tensors = sides()
        tensors[1] = tensors[1][:8] if paired else tensors[1]
        want = results(build(losses.get(name), form), tensors, own, LABELS, NAMES, paired)
        for rank, answer in enumerate(answers):
            assert gap(answer[place][0], want[0]) <= 1e-10, (name, form, own, paired, rank)
        for leaf in (1, 2, 3):  # each rank differentiates the sum of all their values
            joined = torch.cat([answer[place][leaf] for answer in answers]) / world
            assert gap(joined, want[leaf]) <= 1e-10, (name, form, own, paired, leaf)
        for leaf in range(4, len(want)):
            for answer in answers:
                assert gap(answer[place][leaf], want[leaf]) <= 1e-10, (name, form, own, paired, leaf)


def cases(own, paired, tile=None):
    return [(entry.name, form, own, paired, tile) for entry, form in CASES if not (paired and form == "per_class")]


@pytest.mark.parametrize("own", [False, True], ids=["all", "each"])
@pytest.mark.parametrize("paired", [False, True], ids=["grouped", "paired"])
def test_two_ranks(two, own, paired):
    assert_equal(two, cases(own, paired))


def test_tiles_on_two_ranks(two):
    assert_equal(two, cases(True, False, (3, 4)))


@pytest.mark.parametrize("own", [False, True], ids=["all", "each"])
@pytest.mark.parametrize("paired", [False, True], ids=["grouped", "paired"])
def test_four_ranks(four, own, paired):
    assert_equal(four, cases(own, paired))
