"""Softmax: oracle, worked numbers. The peer library has no raw softmax."""

import pytest

from similis.objective.losses.softmax import softmax
from tests.batches import A_LABELS, PROXIES_A, A
from tests.plain import dot, lse, mean


def oracle(x, labels, learned, options):
    rows = [[dot(row, w) for w in learned["proxies"]] for row in x]
    return mean([lse(row) - row[y] for row, y in zip(rows, labels, strict=True)])


ORACLES = {"default": oracle}


@pytest.mark.parametrize(("factor", "expected"), [(1, 0.62835814), (2, 0.38131580)])
def test_worked_numbers(factor, expected):
    assert float(softmax(A, A_LABELS, factor * PROXIES_A)) == pytest.approx(expected, abs=1e-6)
