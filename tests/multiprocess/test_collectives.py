"""Collectives: values, exact gradients, uneven rows, whole numbers of any size, bytes; and lost processes."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from similis.engine.collectives import Collectives
from similis.engine.launch_ranks import launch
from similis.engine.outcomes import RankFailedError
from similis.values import UserError

COUNTS = (3, 0, 2, 1)


def rows_of(rank: int) -> torch.Tensor:
    return torch.arange(COUNTS[rank] * 2, dtype=torch.float64).view(-1, 2) + 10 * rank


def values(communicator):
    rank = communicator.rank
    rows = rows_of(rank)
    return {
        "counts": communicator.counts(len(rows)),
        "gather": communicator.gather(rows, COUNTS),
        "labels": communicator.gather(torch.full((COUNTS[rank],), 2**62 + rank), COUNTS),
        "flags": communicator.gather(torch.arange(COUNTS[rank]) == 1, COUNTS),
        "sum": communicator.sum(torch.tensor(rank + 1)),
        "broadcast": communicator.broadcast(torch.tensor([float(rank), 7.0 * rank]), source=2),
    }


def test_values(four):
    for found in four.call(values):
        assert found["counts"] == COUNTS
        assert torch.equal(found["gather"], torch.cat([rows_of(rank) for rank in range(4)]))
        assert found["labels"].tolist() == [2**62] * 3 + [2**62 + 2] * 2 + [2**62 + 3]  # no float on the way
        assert found["flags"].tolist() == [False, True, False, False, True, False]
        assert found["flags"].dtype == torch.bool
        assert found["sum"].item() == 10
        assert found["broadcast"].tolist() == [2.0, 14.0]


def gradients(communicator):
    """Each process weighs the joined rows in its own way: the gradient of a row is the sum of all weights."""
    rank = communicator.rank
    rows, scalar = rows_of(rank).requires_grad_(), torch.tensor(2.0 + rank, dtype=torch.float64, requires_grad=True)
    weights = torch.arange(12, dtype=torch.float64).view(6, 2) ** (rank + 1)
    joined = communicator.gather(rows, COUNTS)
    value = (weights * joined.square()).sum() + (rank + 1) * communicator.sum(scalar).square()
    value.backward()
    return rows.grad, scalar.grad


def test_gradients_are_those_of_the_sum_over_processes(four):
    found = four.call(gradients)
    rows = torch.cat([rows_of(rank) for rank in range(4)]).requires_grad_()
    scalars = torch.tensor([2.0, 3.0, 4.0, 5.0], dtype=torch.float64, requires_grad=True)
    power = torch.arange(12, dtype=torch.float64).view(6, 2)
    ((power + power**2 + power**3 + power**4) * rows.square()).sum().add(
        (1 + 2 + 3 + 4) * scalars.sum().square()
    ).backward()
    assert torch.allclose(torch.cat([g for g, _ in found]), rows.grad, rtol=1e-14)
    assert [g.item() for _, g in found] == scalars.grad.tolist()


def averages(communicator):
    some = [torch.full((2, 3), float(communicator.rank)), torch.tensor(4.0 * communicator.rank, dtype=torch.float64)]
    communicator.average(some)
    communicator.barrier()
    return some


def test_average(two):
    for matrix, number in two.call(averages):
        assert torch.equal(matrix, torch.full((2, 3), 0.5))
        assert number.item() == 2.0
        assert number.dtype == torch.float64


def counted(communicator):
    before = dict(communicator.bytes)
    rows = torch.zeros(COUNTS[communicator.rank], 2, dtype=torch.float64, requires_grad=True)
    communicator.gather(rows, COUNTS).sum().backward()
    return {key: communicator.bytes[key] - before.get(key, 0) for key in ("gather", "scatter")}


def test_bytes_are_counted_with_padding(four):
    for found in four.call(counted):
        assert found == {"gather": 3 * 2 * 8, "scatter": 4 * 3 * 2 * 8}


def wrong_counts(communicator):
    communicator.gather(torch.zeros(1, 2), (1, 2, 3, 4))


def test_wrong_counts_are_refused():
    with pytest.raises(UserError, match="counts say"):
        launch(wrong_counts, 1)
    with pytest.raises(UserError, match="give 1 or more"):
        launch(wrong_counts, 0)


def test_without_a_group_nothing_is_promised():
    with pytest.raises(UserError, match="not initialised"):
        Collectives()


def vanishing(communicator, folder, times):
    """A rank is lost so many times; the others wait for it."""
    marks = list(folder.iterdir())
    communicator.barrier()
    if communicator.rank == 1 and len(marks) < times:
        (folder / str(len(marks))).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    communicator.barrier()
    return communicator.rank, len(marks)


def test_a_lost_rank_begins_again_with_the_others(tmp_path):
    assert launch(vanishing, 2, tmp_path, 1) == [(0, 1), (1, 1)]


def failing(communicator, own):
    if communicator.rank == 1:
        raise UserError("not with me") if own else KeyError("a bug")
    communicator.barrier()


@pytest.mark.parametrize("own", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_error_of_one_rank_is_the_error_of_the_call(own):
    kind, words = (UserError, "^not with me$") if own else (RankFailedError, "KeyError: 'a bug'")
    with pytest.raises(kind, match=words):
        launch(failing, 2, own)
