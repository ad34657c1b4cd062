"""A loss that finds its ranks by itself; what several ranks compute is in tests/multiprocess."""

import pytest
import torch

import similis
from similis.values import UserError


def test_without_a_group_the_loss_is_that_of_this_process(monkeypatch):
    x, labels = torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 2, 2])
    made = similis.loss("supcon", distributed=True)
    assert torch.equal(made(x, labels), similis.loss("supcon")(x, labels))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="init_process_group"):
        made(x, labels)
