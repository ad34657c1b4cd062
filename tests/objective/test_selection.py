"""Triplets of rows, a strip of them at a time. Choices and draws of columns are those of the miners."""

import pytest
import torch

from similis.objective.selection import expand_triplets
from similis.values import Counts

MASK = torch.tensor([[True, True, True, False], [True, False, True, True]])


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
