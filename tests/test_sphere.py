"""Unit vectors: the bits of the plain formula at ordinary lengths, and the same bits at every other length."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from similis.sphere import norms, unit

TYPES = [torch.float32, torch.float64]


def rows(dtype, seed=0, shape=(9, 33)):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def gradient(function, x, outer):
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(function(x), x, outer)[0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", [1e-9, 0.3, 1.0, 7.0, 1e9])
@pytest.mark.parametrize("shape", [(9, 33), (4, 3, 17)])
def test_at_ordinary_lengths_value_and_gradient_are_the_bits_of_the_plain_formula(shape, length, dtype):
    x, outer = rows(dtype, shape=shape) * length, rows(dtype, 1, shape)
    assert torch.equal(unit(x), normalize(x, dim=-1, eps=1e-12))
    plain = gradient(lambda v: normalize(v, dim=-1, eps=1e-12), x, outer)
    assert torch.equal(gradient(unit, x, outer), plain)


@pytest.mark.parametrize(("dtype", "reach"), [(torch.float32, 100), (torch.float64, 800)])
def test_a_power_of_two_changes_no_bit(dtype, reach):
    x, outer = rows(dtype), rows(dtype, 1)
    value, slope = unit(x), gradient(unit, x, outer)
    for exponent in range(-reach, reach + 1, reach // 20):
        far = x * 2.0**exponent
        assert torch.equal(unit(far), value), exponent
        assert torch.equal(gradient(unit, far, outer) * 2.0**exponent, slope), exponent
        assert torch.equal(norms(far), norms(x) * 2.0**exponent), exponent


def test_the_largest_finite_numbers_have_a_direction():
    """Each coordinate is finite, the norm is not."""
    x = torch.full((1, 64), torch.finfo(torch.float32).max)
    assert torch.equal(unit(x), torch.full((1, 64), 0.125))


@pytest.mark.parametrize("dtype", TYPES)
def test_a_vector_without_direction_is_zero_with_gradient_zero(dtype):
    x = torch.ones((3, 5), dtype=dtype)
    x[0], x[1] = 0.0, torch.finfo(dtype).tiny
    assert unit(x)[:2].count_nonzero() == 0
    slope = gradient(unit, x, rows(dtype, 1, (3, 5)))
    assert slope[:2].count_nonzero() == 0
    assert slope[2].count_nonzero() == 5
    assert norms(x)[:2, 0].tolist() == [math.inf, math.inf]


def test_what_is_not_finite_stays_visible():
    for strange in (math.nan, math.inf, -math.inf):
        x = rows(torch.float32)
        x[3, 2] = strange
        assert unit(x)[3].isnan().any()
        assert unit(x)[4].isfinite().all()


def test_second_derivatives_are_right_at_every_length():
    x = rows(torch.float64, shape=(3, 4))
    assert torch.autograd.gradgradcheck(unit, x.clone().requires_grad_())
    outer, again = rows(torch.float64, 1, (3, 4)), rows(torch.float64, 2, (3, 4))

    def second(v):
        v = v.detach().clone().requires_grad_()
        (first,) = torch.autograd.grad(unit(v), v, outer, create_graph=True)
        return torch.autograd.grad(first, v, again)[0]

    for exponent in (-400, 400):
        found = second(x * 2.0**exponent) * 2.0**exponent * 2.0**exponent
        assert torch.allclose(found, second(x), rtol=1e-13, atol=0), exponent  # sums in another order


def test_it_compiles_to_one_graph_and_maps_over_batches():
    x = rows(torch.float64) * torch.logspace(-300, 300, 9, dtype=torch.float64)[:, None]
    torch._dynamo.reset()
    assert torch.equal(torch.compile(unit, fullgraph=True, backend="aot_eager")(x), unit(x))
    torch._dynamo.reset()
    assert torch.equal(torch.func.vmap(unit)(x), unit(x))
