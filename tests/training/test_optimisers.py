"""Optimisers by name, every parameter in one group, schedules, the moving average."""

import math

import pytest
import torch
from torch import nn

from similis.objective.loss import loss
from similis.registry import losses
from similis.training.optimisers import MovingAverage, Rates, Schedule, build_optimiser, parameter_groups, set_rates
from tests.training.small import Perceptron


@pytest.mark.parametrize("name", [entry.name for entry in losses])
def test_every_parameter_is_in_exactly_one_group(name):
    model, criterion = Perceptron(), loss(name, num_classes=4, dim=5)
    groups = parameter_groups(
        model, model.head.parameters(), criterion, Rates("adamw", 0.1, head_multiplier=2, loss_multiplier=50)
    )
    rates = {id(p): g["lr"] for g in groups for p in g["params"]}
    for name_, p in model.named_parameters():
        assert rates.pop(id(p)) == pytest.approx(0.2 if name_.startswith("head") else 0.1)
    for p in criterion.parameters():
        assert rates.pop(id(p)) == pytest.approx(5.0)
    assert not rates


@pytest.mark.parametrize(
    ("name", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)]
)
def test_optimisers_by_name(name, kind):
    model, criterion = Perceptron(), loss("triplet")
    rates = Rates(name=name, lr=0.5)
    optimiser = build_optimiser(parameter_groups(model, model.head.parameters(), criterion, rates), rates)
    assert isinstance(optimiser, kind)
    set_rates(optimiser, 0.1)
    assert [g["lr"] for g in optimiser.param_groups] == pytest.approx([0.05, 0.05])


def test_the_ramp_rises_to_one():
    ramp = Schedule("constant", ramp_steps=4)
    assert [ramp.factor(s, 10, 100) for s in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_step_falls_every_so_many_epochs():
    falls = Schedule("step", every_epochs=2, gamma=0.5)
    assert [falls.factor(s, 3, 100) for s in (0, 5, 6, 11, 12)] == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_cosine_ends_at_zero():
    cosine = Schedule("cosine")
    assert [cosine.factor(s, 1, 4) for s in range(5)] == pytest.approx(
        [(1 + math.cos(math.pi * s / 4)) / 2 for s in range(5)]
    )
    assert cosine.factor(9, 1, 4) == pytest.approx(0.0)


def test_average_and_counters():
    model = nn.BatchNorm1d(2)
    average = MovingAverage(model, decay=0.75)
    with torch.no_grad():
        model.weight.fill_(5.0)
        model.num_batches_tracked.fill_(9)
    average.update(model)
    assert average.model.weight.tolist() == [2.0, 2.0]
    assert int(average.model.num_batches_tracked) == 9
    assert not any(p.requires_grad for p in average.parameters())
