"""Gradient caching with a batch of 8,192 images and the activations of 64."""

import pytest
import torch
from torch import nn

from similis.objective.loss import loss
from similis.training.gradient_cache import cached_backward
from similis.training.randomness import use_seed

IMAGES, CHUNK = 8192, 64


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(8 * 6 * 6, 16))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["supcon", "triplet", "proxy_anchor"])
def test_gradients_are_those_of_the_whole_batch(name):
    """The direct pass draws the same dropout, chunk by chunk, but keeps every activation."""
    pictures = torch.rand(IMAGES, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(IMAGES) // 4
    criterion = loss(name, num_classes=IMAGES // 4, dim=16)
    cached, direct = model(), model()
    cached_backward(cached, pictures, lambda e: criterion(e, labels), chunk=CHUNK, seeds=(5,))
    own = [p.grad.clone() for p in criterion.parameters()]
    criterion.zero_grad()
    parts = []
    for number, part in enumerate(pictures.split(CHUNK)):
        with use_seed(5, number):
            parts.append(direct(part))
    criterion(torch.cat(parts), labels).backward()
    pairs = [(a.grad, b.grad) for a, b in zip(cached.parameters(), direct.parameters(), strict=True)]
    for got, want in pairs + list(zip(own, [p.grad for p in criterion.parameters()], strict=True)):
        assert (got - want).abs().max() <= 1e-5 * max(1.0, float(want.abs().max()))
