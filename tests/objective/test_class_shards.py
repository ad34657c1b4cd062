"""What two ranks know of their columns, joined; whole losses over ranks are in ``tests/multiprocess``."""

from __future__ import annotations

import torch

from similis.objective.class_shards import reduce_across_ranks, sum_from_owner
from similis.objective.context import Partition
from similis.objective.terms.reductions import Top


class Two:
    """A communicator in one process: the other rank's value is known beforehand."""

    world = 2

    def __init__(self, rank, other):
        self.rank, self.other = rank, other

    def sum(self, value):
        return value + self.other

    def gather(self, rows, counts):
        parts = [rows, self.other[None]]
        self.other = self.last if hasattr(self, "last") else self.other
        return torch.cat(parts if self.rank == 0 else parts[::-1])


def test_sums_and_log_sums_are_those_of_all_columns():
    own, other = torch.tensor([1.0, -torch.inf]), torch.tensor([2.0, -torch.inf])
    columns = Partition(Two(0, other), (3, 4))
    assert reduce_across_ranks("total", torch.tensor([1.0, 5.0]), columns).tolist() == [3.0, -torch.inf]
    joined = reduce_across_ranks("lse", own, Partition(Two(0, other), (3, 4)))
    assert torch.allclose(joined, torch.logaddexp(own, other))


def test_the_largest_of_two_ranks_has_the_lowest_number_among_equals():
    here = Two(1, torch.tensor([[4.0], [4.0]]))
    here.last = torch.tensor([[2], [0]])
    own = Top(torch.tensor([[4.0], [5.0]]), torch.tensor([[6], [7]]))
    found = reduce_across_ranks("top", own, Partition(here, (3, 4)))
    assert found.values.flatten().tolist() == [4.0, 5.0]
    assert found.index.flatten().tolist() == [2, 7]


def test_values_come_from_the_owner_of_a_column():
    index, values = torch.tensor([0, 3, 5]), torch.tensor([1.0, 2.0, 3.0])
    columns = Partition(Two(1, torch.tensor([9.0, 0.0, 0.0])), (3, 4))
    assert sum_from_owner(values, index, columns).tolist() == [9.0, 2.0, 3.0]
