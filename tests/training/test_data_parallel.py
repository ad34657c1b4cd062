"""Steps shared by processes: what is averaged, what is refused. Real processes: tests/multiprocess/test_training.py."""

import torch
from torch import nn

from similis.training.data_parallel import average_gradients, count_global_rows


class Two:
    """Two processes of which the other has gradients of 0 and one row more."""

    rank, world = 0, 2

    def average(self, values):
        for value in values:
            value.div_(2)

    def sum(self, value):
        return 2 * value + 1


def test_gradients_that_exist_are_averaged():
    first, second = (nn.Parameter(torch.ones(2)) for _ in range(2))
    first.grad = torch.tensor([2.0, 4.0])
    average_gradients([first, second], None)
    assert first.grad.tolist() == [2.0, 4.0]
    average_gradients([first, second], Two())
    assert first.grad.tolist() == [1.0, 2.0]
    assert second.grad is None


def test_rows_of_all():
    assert count_global_rows(5, None) == 5
    assert count_global_rows(5, Two()) == 11
