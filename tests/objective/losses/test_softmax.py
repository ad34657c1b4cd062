"""Softmax: oracle, worked numbers. The peer library has no raw softmax."""

import pytest
import torch

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


def test_one_class_is_an_attached_zero():
    x = A.clone().requires_grad_()
    value = softmax(x, torch.zeros(6, dtype=torch.long), PROXIES_A[:1])
    value.backward()
    assert value.item() == 0
    assert x.grad.abs().sum() == 0
