"""NormFace: oracle, worked numbers, floor on the sphere."""

import math

import pytest
import torch

from similis.objective.losses.normface import normface
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B
from tests.plain import dot, lse, mean, on_sphere
from tests.proof import Peer, proxy_peer


def oracle(x, labels, learned, options):
    x, proxies = on_sphere(x), on_sphere(learned["proxies"])
    rows = [[options["scale"] * dot(row, w) for w in proxies] for row in x]
    return mean([lse(row) - row[y] for row, y in zip(rows, labels, strict=True)])


ORACLES = {"default": oracle}


PEERS = {
    "default": Peer("NormalizedSoftmaxLoss(temperature=0.05)", proxy_peer("NormalizedSoftmaxLoss", temperature=0.05))
}


WORKED = [
    ((A, A_LABELS, PROXIES_A), {"scale": 1.0}, 0.62835814),
    ((A, A_LABELS, PROXIES_A), {"scale": 20.0}, 0.00127364),
    ((A, A_LABELS, PROXIES_A), {"scale": 64.0}, 0.00000001),
    ((B, B_LABELS, PROXIES_B), {"scale": 20.0}, 0.75299248),
]


@pytest.mark.parametrize(("scale", "expected"), [(1.0, 3.61237731), (16.0, 9.48e-6)])
def test_floor_is_reached_on_a_simplex(scale, expected):
    simplex = torch.eye(100, dtype=torch.float64) - 1 / 100
    value = float(normface(simplex, torch.arange(100), simplex, scale=scale))
    assert value == pytest.approx(math.log1p(99 * math.exp(-scale * 100 / 99)), rel=1e-10)
    assert value == pytest.approx(expected, abs=1e-6)
