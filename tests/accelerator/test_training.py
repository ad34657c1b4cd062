"""A step with a gradient cache, its draws, clipping, and the moving average on the device."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from similis.registry import losses
from similis.training.data_parallel import sum_of_squares
from similis.training.gradient_cache import cached_embeddings
from similis.training.optimisers import MovingAverage, Rates, build_optimiser, parameter_groups
from similis.training.randomness import use_seed
from tests.accelerator.emulator import NAME
from tests.accelerator.equality import assert_same, batch, make

CPU = torch.device("cpu")


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 16))


@pytest.mark.parametrize("name", ["supcon", "proxy_anchor", "smooth_ap"])
def test_gradient_cache(device, name):
    x, labels = batch(60)
    found = []
    for where in (CPU, device):
        model, made = network().to(where), make(losses.get(name)).to(where)
        value = made(cached_embeddings(model, x.to(where), chunk=16, seeds=(1, 2)), labels.to(where))
        value.backward()
        every = [*model.parameters(), *made.parameters()]
        found.append([value.detach(), *(p.grad for p in every), sum_of_squares(every)])
    assert_same(found[1], found[0], device)


def test_draws_of_a_step_are_repeated_and_leave_no_trace(device):
    module = torch.get_device_module(device.type)
    before, host = module.get_rng_state(), torch.get_rng_state()
    drawn = []
    for _ in range(2):
        with use_seed(3, 4, device=device):
            drawn.append((torch.rand(5), torch.rand(5, device=device)))
    assert_same(drawn[1], drawn[0], device)
    if device.type == NAME:  # its generators draw what the host's draw from the same seed
        assert torch.equal(drawn[0][1].cpu(), drawn[0][0])
    assert torch.equal(module.get_rng_state(), before)
    assert torch.equal(torch.get_rng_state(), host)


def test_moving_average(device):
    found = []
    for where in (CPU, device):
        model = network().to(where)
        average = MovingAverage(model, 0.9)
        with torch.no_grad():
            model[0].weight.add_(1.0)
        average.update(model)
        found.append(average.state_dict())
    assert_same(found[1], found[0], device)


@pytest.mark.parametrize(("name", "most"), [("adamw", 8), ("adam", 8), ("sgd", 4)])
def test_all_weights_are_updated_together(device, count, name, most):
    """By operators over lists of tensors, for a network of any depth."""
    model = nn.Sequential(*[nn.BatchNorm1d(16) for _ in range(10)]).to(device)
    rates, average = Rates(name, 1e-4), MovingAverage(model, 0.9)
    optimiser = build_optimiser(parameter_groups(model, [], nn.Module(), rates), rates)
    for _ in range(2):  # the first step makes the moments
        optimiser.zero_grad()
        model(batch(60)[0].to(device)).square().sum().backward()
        with count() as step:
            optimiser.step()
    with count() as update:
        average.update(model)
    assert 0 < step.launches <= most, str(step.operators)
    assert update.operators == {"_foreach_lerp_.Scalar": 1, "_foreach_copy_": 1}  # weights; counters
