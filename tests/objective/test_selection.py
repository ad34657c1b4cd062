"""Choosing columns of rows."""

import pytest
import torch

from similis.objective.selection import (
    draw,
    expand_triplets,
    first_below,
    first_largest,
    pair_list,
    row_slots,
    use_generator,
)
from similis.values import Counts

VALUES = torch.tensor([[0.1, 0.9, 0.9, 0.3], [0.5, 0.2, 0.5, 0.4]])
MASK = torch.tensor([[True, True, True, False], [True, False, True, True]])


def test_pairs_row_by_row():
    rows, columns = pair_list(MASK)
    assert rows.tolist() == [0, 0, 0, 1, 1, 1]
    assert columns.tolist() == [0, 1, 2, 0, 2, 3]


@pytest.mark.parametrize("strip", [2**20, 0], ids=["one strip", "a strip for each pair"])
def test_triplets_row_by_row(strip, monkeypatch):
    monkeypatch.setattr("similis.objective.selection.STRIP", strip)
    found = expand_triplets(
        ~MASK, lambda anchors, positives: MASK[anchors] & (torch.arange(4) != positives[:, None] - 1)
    )
    assert found.anchors.tolist() == [0, 0, 1, 1]  # row 0 has the positive 3, row 1 the positive 1
    assert found.positives.tolist() == [3, 3, 1, 1]
    assert found.negatives.tolist() == [0, 1, 2, 3]  # without the column before the positive
    assert expand_triplets(MASK[:0], lambda anchors, positives: MASK[anchors]).counts() == Counts(0, 0)


def test_the_lowest_of_equal_columns():
    assert first_largest(VALUES, MASK).tolist() == [1, 0]
    assert first_largest(VALUES, ~MASK).tolist() == [3, 1]
    assert first_largest(VALUES[:, :0], MASK[:, :0]).tolist() == [0, 0]


def test_the_largest_strictly_below_a_bound():
    anchors, bounds = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([1.0, 0.9, 0.1, 0.5, 0.6])
    assert first_below(VALUES, MASK, anchors, bounds).tolist() == [1, 0, -1, 3, 0]


def test_draws_follow_the_weights_and_the_seed():
    weights = torch.tensor([[0.0, 1.0, 3.0, 0.0], [5.0, 0.0, 0.0, 0.0]])
    anchors = torch.tensor([0] * 4000 + [1] * 3)
    found = draw(weights, anchors, use_generator(None))
    assert torch.equal(found, draw(weights, anchors, use_generator(torch.Generator().manual_seed(0))))
    assert found[4000:].tolist() == [0, 0, 0]
    assert set(found[:4000].tolist()) == {1, 2}
    assert abs((found[:4000] == 2).double().mean().item() - 0.75) < 0.03
    assert draw(weights, anchors[:0], use_generator(None)).tolist() == []


def test_slots():
    slots, real = row_slots(torch.tensor([0, 0, 2]), 3)
    assert slots.shape == (3, 2)
    assert real.tolist() == [[True, True], [False, False], [True, False]]
