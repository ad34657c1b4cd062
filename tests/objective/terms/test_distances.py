"""Distances: signs, rounding, duplicates, roots and angles."""

import math

import pytest
import torch

from similis.objective.comparison.compare import compare
from similis.objective.terms.distances import Similarities, angle_cosine, products
from similis.objective.terms.reductions import total
from similis.sphere import unit
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


def test_on_the_sphere_the_squared_norms_are_two():
    s = torch.tensor([-1.0, 0.0, 0.5, 1.0], dtype=torch.float64)
    assert Similarities(s, None).d2.tolist() == [4.0, 2.0, 1.0, 0.0]
    assert Similarities(s, None).d.tolist() == pytest.approx([2.0, math.sqrt(2), 1.0, 0.0])


def test_small_true_distances_are_kept():
    """The floor takes rounding away, not neighbours: 1e-6 apart is 45 million times its height."""
    x = torch.tensor([[1.0, 0.0], [1.0, 1e-6]], dtype=torch.float64)
    near = Similarities((x[0] * x[1]).sum(), x.square().sum())
    assert float(near.d) == pytest.approx(1e-6, rel=1e-3)


def test_a_distance_is_flat_at_zero():
    s = torch.tensor([1.0, 0.5, 1.0 - 1e-9], requires_grad=True)
    value = Similarities(s, None).d
    assert value.tolist() == [0.0, 1.0, 0.0]
    (slope,) = torch.autograd.grad(value.sum(), s)
    assert slope.tolist() == [0.0, -1.0, 0.0]


def test_products_of_stacks_add_an_axis():
    x, classes, stack = rows(3, 4), rows(10, 4, seed=1).view(5, 2, 4), rows(6, 4, seed=2).view(3, 2, 4)
    for i in range(3):
        for k in range(2):
            assert torch.allclose(products(x, classes)[i, :, k], classes[:, k] @ x[i])
            assert torch.allclose(products(stack, x)[i, :, k], x @ stack[i, k])


def test_angle_cosine_is_that_of_the_triangle():
    a, p, n = unit(rows(3, 4))
    side = torch.nn.functional.cosine_similarity(n - a, p - a, dim=0)
    assert float(angle_cosine(a @ n, a @ p, n @ p)) == pytest.approx(float(side), abs=1e-12)


def test_angle_cosine_at_a_coinciding_corner_is_zero_with_no_gradient():
    ap = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    value = angle_cosine(torch.tensor(0.2, dtype=torch.float64), ap, torch.tensor(0.2, dtype=torch.float64))
    value.backward()
    assert value.item() == 0.0
    assert ap.grad.item() == 0.0
