"""A guided loss: weight, parameters, state."""

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.wrappers.guided import Guided
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.values import UserError
from tests.batches import random_batch


def guided(weight: float) -> Guided:
    names = torch.rand(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return Guided(loss("proxy_anchor", num_classes=4, dim=5), names, weight=weight).double()


def test_the_weight_scales_the_guidance():
    x, labels = random_batch(0)
    zero, one, three = (guided(w)(x, labels).item() for w in (0.0, 1.0, 3.0))
    assert zero == pytest.approx(loss("proxy_anchor", num_classes=4, dim=5).double()(x, labels).item())
    assert three - zero == pytest.approx(3 * (one - zero))
    assert one != zero


def test_parameters_and_state_are_those_of_the_loss():
    both = guided(1.0)
    assert [name for name, _ in both.named_parameters()] == ["loss.learned.proxies"]
    again = guided(1.0)
    again.load_state_dict(both.state_dict())
    x, labels = random_batch(1)
    assert again(x, labels).item() == both(x, labels).item()


def test_image_ids_reach_a_memory_inside():
    x, labels = random_batch(0)
    names = torch.eye(4, dtype=torch.float64)
    memory = CrossBatchMemory(loss("triplet"), size=30, dim=5)
    both = Guided(memory, names, weight=0.0).double()
    plain = CrossBatchMemory(loss("triplet"), size=30, dim=5).double()
    ids = torch.arange(11)
    for _ in range(2):  # the second time every anchor would meet its own image in the memory
        assert both(x, labels, image_ids=ids).item() == plain(x, labels, image_ids=ids).item()
    assert both(x, labels).item() != both(x, labels, image_ids=ids).item()


def test_labels_outside_the_class_ids_are_refused():
    term = Guided(loss("triplet"), torch.eye(2), class_ids=[3, 9])
    with pytest.raises(UserError, match=r"\[5\]"):
        term(torch.eye(2), torch.tensor([3, 5]))
