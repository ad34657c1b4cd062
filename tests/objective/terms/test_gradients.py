"""A factor of a gradient."""

import inspect

import torch

from similis.objective.terms.gradients import scale_gradient, with_signature


def test_a_value_stays_and_its_gradient_is_scaled():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    scaled = scale_gradient(x, 0.25)
    assert torch.equal(scaled, x)
    assert torch.autograd.grad(scaled.sum(), x)[0].tolist() == [0.25, 0.25]
    assert scale_gradient(x.detach(), 2.0).requires_grad is False


def test_a_signature_is_at_hand():
    assert list(inspect.signature(with_signature(lambda a, b: (a, b))).parameters) == ["a", "b"]
