"""Poolings against plain loops, their gradients, and GeM's two ends."""

import pytest
import torch

from similis.networks.pooling import POOLINGS, Pooling, gem

MAP = torch.randn(3, 4, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def loops(kind, channel, power=3.0):
    places = [value for row in channel for value in row]
    average = sum(places) / len(places)
    if kind == "gem":
        return (sum(max(v, 1e-6) ** power for v in places) / len(places)) ** (1 / power)
    return {"gap": average, "gmp": max(places), "gap+gmp": average + max(places)}[kind]


@pytest.mark.parametrize("kind", sorted(POOLINGS))
def test_equals_plain_loops(kind):
    pooled = Pooling(kind).double()(MAP).detach()
    assert pooled.shape == (3, 4)
    for b in range(3):
        for f in range(4):
            assert float(pooled[b, f]) == pytest.approx(loops(kind, MAP[b, f].tolist()), abs=1e-12)


@pytest.mark.parametrize("kind", sorted(POOLINGS))
def test_gradients(kind):
    assert torch.autograd.gradcheck(Pooling(kind).double(), MAP.clone().requires_grad_())


def test_gem_learns_its_power_and_nothing_else_learns():
    numbers = {kind: len(list(Pooling(kind).parameters())) for kind in POOLINGS}
    assert numbers == {"gap": 0, "gmp": 0, "gap+gmp": 0, "gem": 1}
    power = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: gem(MAP, p), (power,))
    pooling = Pooling("gem").double()
    pooling(MAP).sum().backward()
    assert float(pooling.power.grad) > 0  # a generalised mean grows with its power


def test_gem_runs_from_the_mean_to_the_maximum():
    positive = MAP.abs() + 0.1
    assert torch.allclose(gem(positive, torch.tensor(1.0)), positive.mean((2, 3)))
    assert torch.allclose(gem(positive, torch.tensor(400.0)), positive.amax((2, 3)), rtol=1e-2)


def test_gem_in_half_precision_does_not_overflow():
    """200^3 is beyond float16."""
    large = torch.full((1, 1, 2, 2), 200.0, dtype=torch.float16)
    assert float(gem(large, torch.tensor(3.0))) == pytest.approx(200.0, rel=1e-5)
