"""NormFace: oracle, worked numbers, closed-form gradient, floor on the sphere."""

from __future__ import annotations

import math

import pytest
import torch

from similis.objective.losses.normface import normface
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B
from tests.plain import dot, lse, mean, on_sphere
from tests.proof import Peer


def oracle(x, labels, learned, options):
    x, proxies = on_sphere(x), on_sphere(learned["proxies"])
    rows = [[options["scale"] * dot(row, w) for w in proxies] for row in x]
    return mean([lse(row) - row[y] for row, y in zip(rows, labels, strict=True)])


ORACLES = {"default": oracle}


def peer(x, labels, learned):
    from pytorch_metric_learning.losses import NormalizedSoftmaxLoss

    loss = NormalizedSoftmaxLoss(num_classes=len(learned["proxies"]), embedding_size=x.shape[1], temperature=0.05)
    loss.W.data = learned["proxies"].T.to(x.dtype)
    return loss(x, labels)


PEERS = {"default": Peer("NormalizedSoftmaxLoss(temperature=0.05)", peer)}


@pytest.mark.parametrize(
    ("x", "labels", "proxies", "scale", "expected"),
    [
        (A, A_LABELS, PROXIES_A, 1.0, 0.62835814),
        (A, A_LABELS, PROXIES_A, 20.0, 0.00127364),
        (A, A_LABELS, PROXIES_A, 64.0, 0.00000001),
        (B, B_LABELS, PROXIES_B, 20.0, 0.75299248),
    ],
)
def test_worked_numbers(x, labels, proxies, scale, expected):
    assert float(normface(x, labels, proxies, scale=scale)) == pytest.approx(expected, abs=1e-6)


def test_gradient_on_the_cosines_is_probability_minus_target():
    """Orthonormal proxies make the cosines free coordinates of unit samples."""
    s = torch.tensor([[0.2, -0.1, 0.05], [0.1, 0.3, -0.2]], dtype=torch.float64)
    x = torch.cat([s, (1 - s.square().sum(1, keepdim=True)).sqrt()], 1).requires_grad_()
    labels = torch.tensor([0, 2])
    normface(x, labels, torch.eye(3, 4, dtype=torch.float64), scale=20.0).backward()
    free = 20 * ((20 * s).softmax(1) - torch.nn.functional.one_hot(labels, 3)) / 2
    free = torch.cat([free, torch.zeros(2, 1, dtype=torch.float64)], 1)
    unit = x.detach()
    assert torch.allclose(x.grad, free - (free * unit).sum(1, keepdim=True) * unit, atol=1e-12)


@pytest.mark.parametrize(("scale", "expected"), [(1.0, 3.61237731), (16.0, 9.48e-6)])
def test_floor_is_reached_on_a_simplex(scale, expected):
    simplex = torch.eye(100, dtype=torch.float64) - 1 / 100
    value = float(normface(simplex, torch.arange(100), simplex, scale=scale))
    assert value == pytest.approx(math.log1p(99 * math.exp(-scale * 100 / 99)), rel=1e-10)
    assert value == pytest.approx(expected, abs=1e-6)


def test_lengths_do_not_matter():
    value = float(normface(7 * B, B_LABELS, 0.2 * PROXIES_B))
    assert value == pytest.approx(float(normface(B, B_LABELS, PROXIES_B)), abs=1e-12)
