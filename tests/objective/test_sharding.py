"""What cannot be divided, and what a divided loss asks for. Real processes: tests/multiprocess/test_sharding.py."""

from __future__ import annotations

import pytest
import torch

from similis.objective.module import loss
from similis.objective.sharding import load_whole, shard, whole_state
from similis.values import UserError


class Second:
    rank, world = 1, 3


def test_refusals():
    with pytest.raises(UserError, match="no class vectors"):
        shard(loss("triplet"), Second())
    with pytest.raises(UserError, match="2 classes cannot be divided over 3"):
        shard(loss("proxy_anchor", num_classes=2, dim=3), Second())
    made = shard(loss("proxy_anchor", num_classes=7, dim=3), Second())
    with pytest.raises(UserError, match="divided already"):
        shard(made, Second())
    with pytest.raises(UserError, match="inside joined"):
        made(torch.randn(4, 3), torch.tensor([0, 0, 1, 1]))


def test_the_share_of_the_second_of_three():
    whole = loss("proxy_anchor", num_classes=7, dim=3).learned["proxies"].detach().clone()
    made = shard(loss("proxy_anchor", num_classes=7, dim=3), Second())
    assert torch.equal(made.learned["proxies"], whole[3:5])
    assert made.shared_parameters() == []
    load_whole(made, {"learned.proxies": whole + 1})
    assert torch.equal(made.learned["proxies"], whole[3:5] + 1)


def test_an_undivided_state_is_whole():
    made = loss("normface", num_classes=3, dim=2)
    optimiser = torch.optim.Adam(made.parameters())
    made(torch.randn(4, 2), torch.tensor([0, 1, 2, 0])).backward()
    optimiser.step()
    state = whole_state(made, optimiser)
    assert {"learned.proxies", "optimiser/learned.proxies/exp_avg"} <= state.keys()
    other = loss("normface", num_classes=3, dim=2, seed=5)
    again = torch.optim.Adam(other.parameters())
    load_whole(other, state, again)
    assert torch.equal(other.learned["proxies"], made.learned["proxies"])
    assert torch.equal(again.state[other.learned["proxies"]]["exp_avg"], state["optimiser/learned.proxies/exp_avg"])
