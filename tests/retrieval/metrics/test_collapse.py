"""Collapse checks: equal to their definitions, and to what a collapse must give."""

import itertools
import math

import pytest
import torch

from similis.retrieval.metrics import collapse
from similis.values import UserError


def sphere(count, dim, seed=0):
    x = torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(x, dim=1)


def squared(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


@pytest.fixture(params=[3, 4096])
def blocks(request, monkeypatch):
    monkeypatch.setattr(collapse, "ROWS", request.param)


def test_uniformity_is_a_mean_over_pairs(blocks):
    x = sphere(17, 3)
    pairs = [math.exp(-2 * squared(a, b)) for a, b in itertools.combinations(x.tolist(), 2)]
    assert collapse.uniformity(x) == pytest.approx(math.log(sum(pairs) / len(pairs)), abs=1e-12)
    assert collapse.uniformity(x, sharpness=0.5) > collapse.uniformity(x)


def test_alignment_is_a_mean_over_pairs_of_a_class(blocks):
    x, labels = sphere(17, 3), [0, 0, 1, 2, 2, 2, 0, 3, 4, 4, 4, 4, 4, 0, 2, 3, 9]
    pairs = [
        squared(a, b) for (a, i), (b, j) in itertools.combinations(zip(x.tolist(), labels, strict=True), 2) if i == j
    ]
    assert collapse.alignment(x, torch.tensor(labels)) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
    assert math.isnan(collapse.alignment(x, torch.arange(17)))


@pytest.mark.parametrize("shape", [(50, 6), (6, 50), (5, 5)])
def test_spectral_decay_is_the_divergence_from_a_flat_spectrum(shape, blocks):
    x = sphere(*shape)
    values = torch.linalg.svdvals(x)
    share = (values / values.sum()).tolist()
    want = sum(1 / len(share) * math.log(1 / len(share) / one) for one in share)
    assert collapse.spectral_decay(x) == pytest.approx(want, abs=1e-9)
    assert collapse.spectral_decay(5 * x.flip(0)) == pytest.approx(want, abs=1e-9)


def test_collapse_shows():
    even, line = sphere(400, 8), sphere(400, 8) * torch.tensor([1.0] + [0.01] * 7, dtype=torch.float64)
    line = torch.nn.functional.normalize(line, dim=1)
    assert collapse.spectral_decay(even) < 0.05 < 0.5 < collapse.spectral_decay(line)
    assert collapse.spectral_decay(torch.cat([even, 0 * even], dim=1)) == math.inf
    assert collapse.uniformity(even) < collapse.uniformity(line) < 0
    assert collapse.uniformity(even[:1].expand(9, -1)) == pytest.approx(0.0, abs=1e-12)


def test_too_little_is_refused():
    with pytest.raises(UserError, match="give two or more"):
        collapse.uniformity(torch.ones(1, 3))
    with pytest.raises(UserError, match="not empty"):
        collapse.spectral_decay(torch.ones(0, 3))
