"""Columns that count as several: in sums, numbers and log-sum-exps, dense and in tiles."""

from dataclasses import replace

import pytest
import torch

from similis.objective.comparison.compare import compare_to_classes
from similis.objective.context import current_context, dense, tiles, use_context
from similis.objective.terms.reductions import count, lse, top, total
from similis.values import UserError

X = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
W = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([0, 1, 2, 2])
WEIGHTS = torch.tensor([1.0, 1.0, 1.0, 2.0, 3.0], dtype=torch.float64)
AGAIN = torch.tensor([0, 1, 2, 3, 3, 4, 4, 4])  # the same classes, as often as they count


@pytest.mark.parametrize("back_end", [dense, lambda: tiles(3, 2)])
def test_a_weight_is_a_number_of_copies(back_end):
    def asked(p, vectors):
        return p.neg(
            lambda t, own: (lse(t.s), total(t.s * own), count(t.s > 0), lse(torch.stack([t.s, -t.s], 2))),
            cols=(vectors.sum(1),),
        )

    with back_end():
        with use_context(replace(current_context(), class_weights=WEIGHTS)):
            got = asked(compare_to_classes(X, LABELS, W, sphere=False), W)
        want = asked(compare_to_classes(X, LABELS, W[AGAIN], sphere=False), W[AGAIN])
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b.to(a.dtype), rtol=1e-12)


def test_means_of_rows_and_columns_go_by_weight():
    p = compare_to_classes(X, LABELS, W, sphere=False)
    assert p.column_mean(torch.arange(5.0)).item() == 2.0
    by_column = replace(p, column_weights=WEIGHTS)
    assert by_column.column_mean(torch.arange(5.0)).item() == pytest.approx((0 + 1 + 2 + 2 * 3 + 3 * 4) / 8)
    by_row = replace(p, row_weights=torch.tensor([1.0, 1.0, 2.0, 4.0]))
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert by_row.mean(values).item() == pytest.approx((1 + 2 + 6 + 16) / 8)
    assert by_row.mean(values, values > 2).item() == pytest.approx((6 + 16) / 6)


def test_the_nearest_are_refused_and_the_context_ends():
    with use_context(replace(current_context(), class_weights=WEIGHTS)):
        p = compare_to_classes(X, LABELS, W, sphere=False)
        assert current_context().class_weights is WEIGHTS
        with pytest.raises(UserError, match="nearest of all classes"):
            p.neg(lambda t: top(t.s))
    assert current_context().class_weights is None
