"""A guided loss: parameters, and image ids for a memory."""

import torch

from similis.objective.loss import loss
from similis.objective.wrappers.guided import Guided
from similis.objective.wrappers.memory import CrossBatchMemory
from tests.batches import random_batch


def test_parameters_are_those_of_the_loss():
    both = Guided(loss("proxy_anchor", num_classes=4, dim=5), torch.eye(4))
    assert [name for name, _ in both.named_parameters()] == ["loss.learned.proxies"]


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
