"""A loss with terms: weights, parameters of all parts, state."""

from __future__ import annotations

import pytest
import torch

from similis.objective.composition import Combined, regulariser
from similis.objective.module import loss
from tests.batches import random_batch


def combined(weight: float) -> Combined:
    names = torch.rand(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return Combined(loss("proxy_anchor", num_classes=4, dim=5), [(weight, regulariser("language", class_similarity=names))]).double()


def test_weights_scale_the_term():
    x, labels = random_batch(0)
    zero, one, three = (combined(w)(x, labels).item() for w in (0.0, 1.0, 3.0))
    assert zero == pytest.approx(loss("proxy_anchor", num_classes=4, dim=5).double()(x, labels).item())
    assert three - zero == pytest.approx(3 * (one - zero))
    assert one != zero


def test_parameters_and_state_are_those_of_the_parts():
    both = combined(1.0)
    assert [name for name, _ in both.named_parameters()] == ["loss.learned.proxies"]
    again = combined(1.0)
    again.load_state_dict(both.state_dict())
    x, labels = random_batch(1)
    assert again(x, labels).item() == both(x, labels).item()
