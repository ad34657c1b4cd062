"""Columns passed round: their order, stretches, and a group of one process. Several real ones: tests/multiprocess."""

import pytest
import torch

from similis.objective.backends.ring import RemoteColumns, find_in_stretch, reading_order, split_pairs
from similis.objective.backends.tiled.reader import GradientBuffer, read_in_tiles
from similis.objective.context import Partition, distributed, tiles
from similis.objective.loss import loss
from similis.registry import losses


class Alone:
    """A group of one: nothing to wait for, and what goes round comes from here."""

    rank, world = 0, 1

    def counts(self, rows):
        return (rows,)

    def gather(self, rows, counts):
        assert counts == (len(rows),)
        return rows.clone()

    def sum(self, value):
        return value.clone()

    def broadcast(self, value, source=0):
        assert source == 0
        return value.detach().clone()

    def reduce(self, value, owner):
        assert owner == 0
        return value.detach().clone()


class Middle:
    rank, world = 1, 3


LABELS = torch.tensor([3, 1, 2, 2, 0, 7, 7, 5])


def test_each_process_reads_its_rows_in_the_order_of_their_labels():
    joint = Partition(Middle(), (3, 0, 5))
    assert reading_order(joint, LABELS, torch.device("cpu")).tolist() == [1, 2, 0, 4, 3, 7, 5, 6]
    assert reading_order(joint, None, torch.device("cpu")).tolist() == list(range(8))


def test_stretches_end_with_their_process():
    passed = RemoteColumns(
        read_in_tiles(torch.zeros(0, 2), sphere=False),
        joint := Partition(Middle(), (3, 0, 5)),
        reading_order(joint, LABELS, torch.device("cpu")),
        2,
    )
    found = [(one.owner, one.first, one.last, one.place.start, one.place.stop) for one in passed.stretches()]
    assert found == [(0, 0, 2, 0, 2), (0, 2, 3, 2, 3), (2, 0, 2, 3, 5), (2, 2, 4, 5, 7), (2, 4, 5, 7, 8)]
    assert torch.equal(passed.order[passed.places], torch.arange(8))


def test_wanted_rows_are_found_in_a_stretch():
    which, inside = find_in_stretch(torch.tensor([4, 0, 6, 5, 5]), slice(4, 6))
    assert which.tolist() == [0, 3, 4]
    assert inside.tolist() == [0, 1, 1]
    pieces = [(a.tolist(), b.tolist()) for a, b in split_pairs(which, inside, 2)]
    assert pieces == [([0, 3], [0, 1]), ([4], [1])]


def test_a_visit_brings_numbers_and_gathers_a_gradient():
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    passed = RemoteColumns(read_in_tiles(rows, sphere=False), Partition(Middle(), (0, 2, 0)), torch.tensor([7, 5]), 2)
    visit = passed.visit(rows, slice(0, 2))
    assert visit.order.tolist() == [7, 5]
    assert torch.equal(visit.tile(1, 2), rows[1:])
    buffer = GradientBuffer(visit)
    buffer.add(0, 1, torch.tensor([[2.0]]), torch.tensor([[1.0, -1.0]]))
    buffer.add_scaled(1, 2, torch.tensor([10.0]))
    assert buffer.total().tolist() == [[2.0, -2.0], [30.0, 40.0]]


@pytest.mark.parametrize("name", [e.name for e in losses if e.family not in ("proxy", "classification")])
def test_a_group_of_one_has_the_loss_of_one(name):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 5, generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3])[torch.randperm(12, generator=generator)]
    made = loss(name, num_classes=4, dim=5, **next(iter(losses.get(name).forms.values()))).double()
    want = made(x, labels)
    with distributed(Alone(), ring=True), tiles(4, 5):
        got = made(x, labels)
    assert float((got - want).detach().abs()) < 1e-12 * max(1.0, float(want.detach().abs()))
    first, second = (torch.autograd.grad(value, x)[0] for value in (got, want))
    assert float((first - second).abs().max()) < 1e-11 * max(1.0, float(second.abs().max()))


def test_single_rows_and_their_gradients():
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    labels, index = torch.tensor([2, 0, 1, 1, 0, 2]), torch.tensor([[5, 0], [3, 3]])
    own = read_in_tiles(x, sphere=True, order=labels.argsort(stable=True))
    passed = RemoteColumns(own, Partition(Alone(), (6,)), labels.argsort(stable=True), 4)
    unit = x / x.norm(dim=1, keepdim=True)
    weights = torch.randn(2, 2, 3, dtype=torch.float64)
    similar, squares = passed.met(own, torch.tensor([0, 1, 2]), torch.tensor([4, 4, 1]))
    got = (passed.rows(index) * weights).sum() + (similar * torch.arange(3)).sum() + squares.square().sum()
    rows, columns = unit[labels.argsort(stable=True)[:3]], unit[[4, 4, 1]]
    want = (unit[index] * weights).sum() + ((rows * columns).sum(1) * torch.arange(3)).sum()
    want = want + columns.square().sum(1).square().sum()
    assert torch.allclose(got, want, rtol=1e-14)
    first, second = (torch.autograd.grad(value, x)[0] for value in (got, want))
    assert torch.allclose(first, second, rtol=1e-11, atol=1e-12)
