"""Every miner chooses on the device what it chooses on the CPU, and so does a loss that mines."""

from __future__ import annotations

import pytest
import torch

from similis.registry import losses, miners
from tests.accelerator.equality import assert_same, batch, make, step
from tests.objective.miners.plain_sets import random_seen
from tests.objective.miners.test_every_miner import USERS, mine


@pytest.mark.parametrize("name", [entry.name for entry in miners])
def test_tuples_equal_those_of_the_cpu(device, name):
    seen = random_seen(3)
    assert_same(mine(name, [part.to(device) for part in seen]), mine(name, seen), device)


@pytest.mark.parametrize(("user", "name"), USERS)
def test_a_loss_that_mines_equals_the_cpu(device, user, name):
    x, labels = batch(40)
    want = step(make(losses.get(user), miner=name), x, labels, torch.device("cpu"))
    got = step(make(losses.get(user), miner=name), x, labels, device)
    assert_same(got, want, device)
