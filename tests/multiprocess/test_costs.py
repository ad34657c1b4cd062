"""The formulas of traffic against the bytes that four real processes handed over."""

from __future__ import annotations

import pytest
import torch

from similis.objective.context import distributed
from similis.objective.loss import loss
from similis.objective.sharding import shard
from tests.multiprocess.costs import traffic

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
