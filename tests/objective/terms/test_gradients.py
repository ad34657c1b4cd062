"""Gradients that are written out: those of autograd, second derivatives included."""

import torch
from torch.autograd import gradcheck, gradgradcheck

from similis.objective.terms.gradients import Gram


def values(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def test_products_of_rows_with_themselves():
    rows = values(4, 3)
    assert torch.equal(Gram.apply(rows), rows @ rows.T)
    assert gradcheck(Gram.apply, rows)
    assert gradgradcheck(Gram.apply, rows)
