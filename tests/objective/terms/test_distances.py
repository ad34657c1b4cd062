"""Distances: rounding, duplicates, small distances, names."""

import pytest
import torch

from similis.objective.comparison.compare import compare
from similis.objective.terms.distances import Similarities
from similis.objective.terms.reductions import total
from similis.values import UserError


def rows(count, dim, dtype=torch.float64, seed=0):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("sphere", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [2, 64, 512, 2048])
def test_duplicates_have_distance_zero_and_no_gradient(dim, dtype, sphere):
    half = rows(24, dim, dtype, seed=dim)
    x = torch.cat([half, half]).requires_grad_()
    p = compare(x, torch.arange(24).repeat(2), sphere=sphere)
    near = p.pos(lambda t: total(t.d))
    assert near.tolist() == [0.0] * 48
    near.sum().backward()
    assert x.grad.abs().max() == 0.0
    index, _ = p.positives()
    assert p.at(index).d.detach().tolist() == [[0.0, 0.0]] * 48


def test_an_unknown_geometry_names_the_nearest():
    with pytest.raises(UserError, match="did you mean 'euclid'"):
        Similarities(torch.zeros(1), None).far("eucld")


def test_small_true_distances_are_kept():
    """The floor takes rounding away, not neighbours: 1e-6 apart is 45 million times its height."""
    x = torch.tensor([[1.0, 0.0], [1.0, 1e-6]], dtype=torch.float64)
    near = Similarities((x[0] * x[1]).sum(), x.square().sum())
    assert float(near.d) == pytest.approx(1e-6, rel=1e-3)
