"""What cannot be divided, and what a divided loss asks for. Real processes: tests/multiprocess/test_sharding.py."""

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.sharding import shard
from similis.values import UserError


class Second:
    rank, world = 1, 3


def test_refusals():
    with pytest.raises(UserError, match="no proxies"):
        shard(loss("triplet"), Second())
    with pytest.raises(UserError, match="2 classes cannot be sharded over 3"):
        shard(loss("proxy_anchor", num_classes=2, dim=3), Second())
    made = shard(loss("proxy_anchor", num_classes=7, dim=3), Second())
    with pytest.raises(UserError, match="sharded already"):
        shard(made, Second())
    with pytest.raises(UserError, match="inside distributed"):
        made(torch.randn(4, 3), torch.tensor([0, 0, 1, 1]))


def test_the_share_of_the_second_of_three():
    whole = loss("proxy_anchor", num_classes=7, dim=3).learned["proxies"].detach().clone()
    made = shard(loss("proxy_anchor", num_classes=7, dim=3), Second())
    assert torch.equal(made.learned["proxies"], whole[3:5])
    assert made.shared_parameters() == []
