"""Softmax: oracle, worked numbers, gradient (p - onehot) / B. The peer library has no raw softmax."""

from __future__ import annotations

import pytest
import torch

from similis.objective.losses.softmax import softmax
from similis.registry import losses
from tests.batches import A_LABELS, PROXIES_A, A
from tests.plain import dot, lse, mean


def oracle(x, labels, learned, options):
    rows = [[dot(row, w) for w in learned["proxies"]] for row in x]
    return mean([lse(row) - row[y] for row, y in zip(rows, labels, strict=True)])


ORACLES = {"default": oracle}


@pytest.mark.parametrize(("factor", "expected"), [(1, 0.62835814), (2, 0.38131580)])
def test_worked_numbers(factor, expected):
    assert float(softmax(A, A_LABELS, factor * PROXIES_A)) == pytest.approx(expected, abs=1e-6)


def test_gradient_on_the_logits_is_probability_minus_target():
    """With the identity as class vectors the raw coordinates are the logits."""
    logits = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    labels = torch.tensor([0, 3, 1, 1, 2])
    softmax(logits, labels, torch.eye(4, dtype=torch.float64)).backward()
    truth = (logits.detach().softmax(1) - torch.nn.functional.one_hot(labels, 4)) / 5
    assert torch.allclose(logits.grad, truth, atol=1e-12)


def test_vectors_are_used_raw():
    """Longer samples sharpen the probabilities; the declared input says so to the run."""
    assert float(softmax(3 * A, A_LABELS, PROXIES_A)) < float(softmax(A, A_LABELS, PROXIES_A))
    assert losses.get("softmax").input == "raw"


def test_one_class_is_an_attached_zero():
    x = A.clone().requires_grad_()
    value = softmax(x, torch.zeros(6, dtype=torch.long), PROXIES_A[:1])
    value.backward()
    assert value.item() == 0
    assert x.grad.abs().sum() == 0


def test_small_integer_labels_are_numbers_not_masks():
    small = A_LABELS.to(torch.uint8)
    assert float(softmax(A, small, PROXIES_A)) == pytest.approx(0.62835814, abs=1e-6)
