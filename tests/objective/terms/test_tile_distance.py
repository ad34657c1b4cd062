"""Distances of a stream's tile: the numbers and slopes of the dense ones."""

import pytest
import torch

from similis.objective.terms.distances import Similarities
from similis.objective.terms.tile_distance import TileDistance


def leaves(dtype, sphere, near):
    """Similarities of rows with columns, among them a copy (``near``) whose distance is rounding alone."""
    generator = torch.Generator().manual_seed(0)
    rows, columns = (torch.randn(n, 33, generator=generator, dtype=torch.float64) for n in (6, 9))
    if near:
        columns[4] = rows[2]
    if sphere:
        rows, columns = (v / v.norm(dim=1, keepdim=True) for v in (rows, columns))
    rows, columns = rows.to(dtype), columns.to(dtype)
    norms = [] if sphere else [rows.square().sum(1, keepdim=True), columns.square().sum(1)[None]]
    return [x.requires_grad_() for x in (rows @ columns.T, *norms)]


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("sphere", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_slopes_are_the_dense_ones(dtype, sphere, near, root):
    own = leaves(dtype, sphere, near)
    dense = Similarities(own[0], None if sphere else (own[1], own[2]))
    want = dense.d if root else dense.d2
    got = TileDistance.apply(own[0], *(own[1:] or (None, None)), root)
    assert torch.allclose(got, want, rtol=8 * torch.finfo(dtype).eps)
    assert bool((got == 0).any()) is near
    weight = torch.randn(want.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    slopes = zip(torch.autograd.grad(got, own, weight), torch.autograd.grad(want, own, weight), strict=True)
    for mine, theirs in slopes:
        assert torch.allclose(mine, theirs, rtol=100 * torch.finfo(dtype).eps, atol=100 * torch.finfo(dtype).eps)


def test_no_number_stays_no_number():
    s = torch.tensor([[0.5, float("nan")]], requires_grad=True)
    norms = torch.ones(1, 1), torch.ones(1, 2)
    for given in (norms, (None, None)):
        far = TileDistance.apply(s, *given, True)
        (slope,) = torch.autograd.grad(far.sum(), s)
        assert far.isnan().tolist() == slope.isnan().tolist() == [[False, True]]


def test_an_empty_tile():
    assert TileDistance.apply(torch.zeros(0, 3), torch.zeros(0, 1), torch.zeros(1, 3), True).shape == (0, 3)
