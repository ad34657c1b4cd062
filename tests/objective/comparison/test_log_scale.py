"""The learned scale of a loss: where it starts, its bound, and what is refused."""

import math

import pytest
import torch

import similis
from similis.values import UserError


@pytest.mark.parametrize(("start", "near", "moves"), [(4.0, True, True), (4.7, True, False), (4.7, False, True)])
def test_a_learned_scale_stops_at_its_bound_and_comes_back(start, near, moves):
    x = torch.eye(4)
    made = similis.loss("info_nce", learnable=True)
    made.learned["log_scale"].data.fill_(start)
    first, second = (1.0, 0.9) if near else (0.9, 1.0)  # right documents ask for a larger scale, wrong for a smaller
    documents = first * x + second * x.roll(1, 0)
    value = made(x, documents=documents)
    value.backward()
    at_bound = similis.loss("info_nce", temperature=1 / min(math.exp(start), 100.0))(x, documents=documents)
    assert value.item() == pytest.approx(at_bound.item(), rel=1e-5, abs=1e-12)
    gradient = made.learned["log_scale"].grad.item()
    assert (gradient != 0) == moves
    assert gradient <= 0 if near else gradient > 0


def test_a_temperature_is_above_zero():
    with pytest.raises(UserError, match="temperature is 0"):
        similis.loss("info_nce", temperature=0.0)
