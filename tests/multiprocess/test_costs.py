"""The formulas of traffic against the bytes that four real processes handed over."""

from __future__ import annotations

import pytest
import torch

from similis.objective.context import distributed
from similis.objective.loss import loss
from similis.objective.sharding import shard
from similis.values import UserError
from tests.multiprocess.costs import memory, traffic

COUNTS, DIM, CLASSES = (5, 1, 4, 2), 6, 40


def counted(communicator, name: str, divided: bool) -> dict[str, int]:
    """Bytes of one step: gathers, scatters, sums."""
    more = {"num_classes": CLASSES, "dim": DIM} if name in ("normface", "proxy_anchor", "proxy_nca") else {}
    made = loss(name, **more)
    if divided:
        shard(made, communicator)
    x = torch.randn(COUNTS[communicator.rank], DIM, requires_grad=True)
    labels = torch.arange(COUNTS[communicator.rank]) % 2
    before = communicator.bytes.copy()
    with distributed(communicator):
        made(x, labels).backward()
    return {key: communicator.bytes[key] - before[key] for key in ("gather", "scatter", "sum")}


CASES = [
    ("multi_similarity", "pairs", False),
    ("supcon", "pairs", False),
    ("normface", "classes", False),
    ("proxy_anchor", "class_anchors", False),
    ("proxy_anchor", "class_anchors", True),
    ("normface", "divided_classes", True),
    ("proxy_nca", "divided_classes", True),
]


@pytest.mark.parametrize(("name", "kind", "divided"), CASES)
def test_bytes_of_a_step(four, name, kind, divided):
    want = traffic(kind, counts=COUNTS, dim=DIM)
    for found in four.call(counted, name, divided):
        assert (found["gather"], found["scatter"]) == want
        whole = 0 if divided or kind == "pairs" else CLASSES * DIM * 4  # the gradient of what every rank has
        assert found["sum"] <= whole + 2 * 12 * 4 + 8 * 16  # one number for each row at most, and single numbers


def test_traffic_does_not_know_the_classes_and_memory_divides_them():
    with pytest.raises(UserError, match="kind is 'rows'"):
        traffic("rows", counts=(1,), dim=2)
    one, eight = (memory(batch=64, dim=8, world=world, classes=800) for world in (1, 8))
    assert one.classes == 8 * eight.classes == 800 * 8 * 4 * 4
    assert one.batch == eight.batch
    assert one.total == one.classes + one.batch + one.tile
