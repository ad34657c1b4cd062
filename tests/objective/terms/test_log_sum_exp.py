"""Log-sum-exps with a gradient that is written out: that of autograd, second derivatives included."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from similis.objective.terms import reductions
from similis.objective.terms.reductions import evaluate, fill_masked, lse, restrict, safe_lse


def values(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.fixture(params=[0, 2**14], autouse=True, ids=["written out", "direct"])
def direct(request, monkeypatch):
    monkeypatch.setattr(reductions, "DIRECT", request.param)


def row_lse(some, truth):
    return evaluate(lse(some), mask=truth)


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 2)])
def test_log_sum_exp_over_a_set(shape):
    some = values(*shape)
    truth = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4
    truth[2] = False
    found = row_lse(some, truth)
    want = safe_lse(fill_masked(restrict(lse(some), truth), -float("inf")))
    assert torch.allclose(found, want, rtol=1e-14)
    full = torch.tensor([0, 1, 3])
    assert gradcheck(lambda x: row_lse(x, truth)[full], some)
    assert gradgradcheck(lambda x: row_lse(x, truth)[full], some)


def test_an_empty_set_gives_minus_infinity_and_no_slope():
    some = values(2, 3)
    found = row_lse(some, torch.zeros(2, 3, dtype=torch.bool))
    assert torch.equal(found, torch.full((2,), -float("inf"), dtype=torch.float64))
    (slope,) = torch.autograd.grad(torch.nn.functional.softplus(found).sum(), some)
    assert torch.equal(slope, torch.zeros_like(slope))


def test_what_lies_outside_has_exactly_no_slope_and_no_number_stays_no_number():
    some = values(1, 3).float().detach().requires_grad_()
    truth = torch.tensor([[True, False, True]])
    (slope,) = torch.autograd.grad(row_lse(some, truth).sum(), some)
    assert slope[0, 1] == 0
    assert slope.sum().item() == pytest.approx(1)
    assert row_lse(torch.tensor([[float("nan"), 0.0, 0.0]]), truth).isnan()
