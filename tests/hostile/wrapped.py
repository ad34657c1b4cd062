"""Every objective that holds another one, or state of its own, built fresh: the wrappers under attack."""

from collections.abc import Callable

import torch
from torch import nn

from similis.objective.loss import Loss, loss
from similis.objective.wrappers.guided import Guided, Objective
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from tests.proof import CLASSES, DIM


def proxies() -> Loss:
    return loss("proxy_anchor", num_classes=CLASSES, dim=DIM)


def guided(made: Objective) -> Guided:
    return Guided(made, torch.eye(CLASSES).add(0.1), weight=0.5)


WRAPPERS: dict[str, Callable[[], nn.Module]] = {
    "memory": lambda: CrossBatchMemory(loss("multi_similarity"), 30, DIM),
    "memory of proxies": lambda: CrossBatchMemory(proxies(), 30, DIM),
    "small memory": lambda: CrossBatchMemory(loss("contrastive"), 5, DIM),
    "late memory": lambda: CrossBatchMemory(loss("triplet"), 30, DIM, start=1),
    "nested": lambda: Nested(proxies(), (2, DIM)),
    "memory of nested": lambda: CrossBatchMemory(Nested(loss("supcon"), (2, DIM)), 30, DIM),
    "guided": lambda: guided(loss("multi_similarity")),
    "guided with memory": lambda: guided(CrossBatchMemory(loss("supcon"), 30, DIM)),
    "mined pairs": lambda: loss("contrastive", miner="multi_similarity"),
    "mined at random": lambda: loss("margin", miner="distance_weighted"),
    "memory with a miner": lambda: CrossBatchMemory(loss("triplet", miner="semi_hard"), 30, DIM),
}
