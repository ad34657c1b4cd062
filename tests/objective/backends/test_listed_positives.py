"""Positives by list are the positives of the definition; where a device takes them is in ``tests/accelerator``."""

from __future__ import annotations

import pytest
import torch

from similis.objective.backends.listed_positives import list_columns, list_positives, reduce_listed
from similis.objective.comparison.compare import compare
from similis.objective.terms.reductions import count, lse, top, total
from similis.objective.terms.tile import Ask
from tests.batches import random_batch

X, LABELS = random_batch(1)
MATRIX = torch.arange(16.0, dtype=torch.float64).view(4, 4)


def terms(t, bound, value):
    return (
        lse(t.s + value),
        total(t.d2, t.d > bound),
        count(t.same & (t.columns < 8)),
        top(-t.s, None, 2),
        total(t.of_classes(MATRIX) * t.once),
    )


@pytest.mark.parametrize("sphere", [True, False])
def test_a_list_gives_what_the_matrix_gives(sphere):
    p = compare(X, LABELS, sphere=sphere)
    (block,) = p.references
    bound, value = torch.linspace(0.1, 1.5, len(X), dtype=X.dtype), torch.arange(len(X)).to(X.dtype)
    ask = Ask("pos", terms, (bound,), (value,))
    index, real = block.positives(p.row_labels)
    tile = p.backend.tile(0, 0)
    kinds, got = reduce_listed(ask, list_columns(tile, index), block, (index, real), (p.row_labels, 0))
    assert kinds == ["lse", "total", "total", "top", "total"]
    for a, b in zip(got, p.pos(terms, rows=(bound,), cols=(value,)), strict=True):
        for u, v in zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]:
            assert torch.allclose(u.double(), v.double(), atol=1e-12, equal_nan=True)


def test_what_is_not_listed():
    (block,) = compare(X, LABELS, sphere=True).references
    assert list_positives(Ask("pos", terms), block, LABELS) is None  # few pairs
    wide = compare(X.repeat(20, 1), LABELS.repeat(20) + 4 * torch.arange(220), sphere=True)
    (block,), labels = wide.references, wide.row_labels
    assert list_positives(Ask("pos", terms), block, labels) is not None
    assert list_positives(Ask("neg", terms), block, labels) is None
    assert list_positives(Ask("pos", terms, rows=(torch.ones(220, 3),)), block, labels) is None
    assert list_positives(Ask("pos", terms, dots=(wide.rows,)), block, labels) is None
    assert list_positives(Ask("pos", terms), block, labels, share=0.0) is None
