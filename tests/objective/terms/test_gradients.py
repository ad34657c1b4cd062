"""Slopes that are written out: those of autograd, second derivatives included."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from similis.objective.terms.gradients import Gram, far_below, row_lse
from similis.objective.terms.reductions import fill_masked, lse, restrict, safe_lse


def values(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def test_products_of_rows_with_themselves():
    rows = values(4, 3)
    assert torch.equal(Gram.apply(rows), rows @ rows.T)
    assert gradcheck(Gram.apply, rows)
    assert gradgradcheck(Gram.apply, rows)


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 2)])
def test_log_sum_exp_over_a_set(shape):
    some = values(*shape)
    truth = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4
    truth[2] = False
    bias = torch.where(truth, torch.zeros((), dtype=torch.float64), -far_below(some))
    found = row_lse(some, bias)
    want = safe_lse(fill_masked(restrict(lse(some), truth), -float("inf")))
    assert torch.allclose(found, want, rtol=1e-14)
    full = torch.tensor([0, 1, 3])
    assert gradcheck(lambda x: row_lse(x, bias)[full], some)
    assert gradgradcheck(lambda x: row_lse(x, bias)[full], some)


def test_an_empty_set_gives_minus_infinity_and_no_slope():
    some = values(2, 3)
    bias = torch.full_like(some, -far_below(some)).detach()
    found = row_lse(some, bias)
    assert torch.equal(found, torch.full((2,), -float("inf"), dtype=torch.float64))
    (slope,) = torch.autograd.grad(torch.nn.functional.softplus(found).sum(), some)
    assert torch.equal(slope, torch.zeros_like(slope))


def test_what_lies_outside_has_exactly_no_slope_and_no_number_stays_no_number():
    some = values(1, 3).float().detach().requires_grad_()
    bias = torch.tensor([[0.0, -far_below(some), 0.0]])
    (slope,) = torch.autograd.grad(row_lse(some, bias).sum(), some)
    assert slope[0, 1] == 0
    assert slope.sum().item() == pytest.approx(1)
    assert row_lse(torch.tensor([[float("nan"), 0.0, 0.0]]), bias).isnan()
