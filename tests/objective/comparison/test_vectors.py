"""Comparisons: values of rows and columns, several blocks as if they were one."""

import pytest
import torch

from similis.objective.backends.protocol import Operands
from similis.objective.comparison.compare import build_comparison, compare
from similis.objective.context import LOCAL
from similis.objective.references import Block, References
from similis.objective.terms.reductions import count, lse, top, total
from similis.values import UserError
from tests.batches import random_batch

X, LABELS = random_batch(0)


def dense():
    return compare(X, LABELS, sphere=True)


def cut_in_two(p, at=4):
    """The same comparison with its columns in two blocks."""
    (block,) = p.references
    parts = [
        Block(p.rows[s], block.labels[s], block.own, block.ids[s], mirrored=True)
        for s in (slice(0, at), slice(at, None))
    ]
    return build_comparison(Operands(p.rows, p.row_labels, References(tuple(parts)), p.on_sphere, False), LOCAL)


@pytest.mark.parametrize("sphere", [True, False])
def test_two_blocks_are_as_one(sphere):
    p = compare(X, LABELS, sphere=sphere)
    q = cut_in_two(p)

    def terms(t):
        return lse(t.s), total(t.d2), count(t.d > 1), top(t.s, None, 3)

    for which in ("pos", "neg", "others", "every"):
        for a, b in zip(p.over(which, terms), q.over(which, terms), strict=True):
            for u, v in zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]:
                assert torch.allclose(u.double(), v.double(), atol=1e-12, equal_nan=True)
    index = torch.tensor([[0, 3, 4, 10]] * len(X))
    assert torch.equal(p.at(index).s, q.at(index).s)
    assert torch.equal(p.take(index), q.take(index))


def test_positives_of_two_blocks_number_their_columns_through():
    p, q = dense(), cut_in_two(dense())
    for (a, ok), (b, good) in zip(zip(*p.positives(), strict=True), zip(*q.positives(), strict=True), strict=True):
        assert sorted(a[ok].tolist()) == sorted(b[good].tolist())


def test_values_of_rows_columns_and_further_products_arrive_where_they_belong():
    p = dense()
    rows, cols, other = torch.arange(11.0).double(), 10 * torch.arange(11.0).double(), X.flip(0)
    got = p.every(lambda t, r, c, d: total(r + c * t.s + d), rows=(rows,), cols=(cols,), dots=(other,))
    want = (rows[:, None] + cols * (p.rows @ p.rows.T) + other @ p.rows.T).sum(1)
    assert torch.allclose(got, want)


def test_a_tile_knows_its_columns_labels_and_halves():
    def look(t):
        return (
            total(t.columns + 0 * t.s),
            total(t.of_classes(torch.eye(4, dtype=torch.float64))),
            total(t.once + 0 * t.s),
        )

    places, same, halves = cut_in_two(dense()).every(look)
    assert places.tolist() == pytest.approx([55.0] * 11)
    assert same.tolist() == [float((c == LABELS).sum()) for c in LABELS]
    assert halves.tolist() == pytest.approx([5.5] * 11)


def test_values_of_columns_and_a_memory_are_refused_together():
    with pytest.raises(UserError, match="drop the memory"):
        cut_in_two(dense()).every(lambda t, c: total(c * t.s), cols=(torch.ones(11),))


def test_no_references_are_refused():
    with pytest.raises(UserError, match="at least one block"):
        build_comparison(Operands(X, LABELS, References(()), True, False), LOCAL).every(lambda t: total(t.s))


def test_means_skip_rows_and_give_an_attached_zero_for_none():
    p, values = dense(), torch.tensor([1.0, float("inf"), 3.0], requires_grad=True)
    assert p.mean(values, torch.tensor([True, False, True])).item() == 2.0
    none = p.mean(values, torch.tensor([False, False, False]))
    none.backward()
    assert none.item() == 0.0
    assert values.grad.tolist() == [0.0, 0.0, 0.0]
    assert p.ratio(torch.tensor([2.0, 4.0]), torch.tensor([1, 3])).item() == 1.5
