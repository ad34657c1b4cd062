"""Optimisers with their parameter groups, learning-rate schedules, and the moving average of the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Rates:
    """Learning rates and decay.

    Attributes:
        name: the optimiser.
        lr: rate of the backbone.
        head_multiplier: rate of the head relative to ``lr``.
        loss_multiplier: rate of proxies and other loss parameters relative to ``lr``.
        weight_decay: of every group.
        eps: of Adam; a multiplier of 1e5 belongs to eps = 1, one of 100 to the usual eps.
        momentum: of SGD.
        layer_decay: each layer of the backbone has the rate of the one above it, times this.
    """

    name: Literal["adamw", "adam", "sgd"]
    lr: float
    head_multiplier: float = 1.0
    loss_multiplier: float = 1.0
    weight_decay: float = 1e-4
    eps: float = 1e-8
    momentum: float = 0.9
    layer_decay: float = 1.0


def parameter_groups(
    model: nn.Module,
    head: Iterable[nn.Parameter],
    loss: nn.Module,
    rates: Rates,
    layers: Sequence[Sequence[nn.Parameter]] = (),
) -> list[dict[str, Any]]:
    """Every parameter of model and loss in exactly one named group.

    Args:
        model: what is trained.
        head: parameters behind the backbone.
        loss: with its proxies.
        rates: of the groups.
        layers: the backbone's parameters from input to output, a group each; none for one group of all of them.
    """
    head = list(head)
    known = {id(p) for p in head}
    backbone = [p for p in model.parameters() if id(p) not in known]
    learned = [p for p in loss.parameters() if id(p) not in known | {id(p) for p in backbone}]
    below = {id(p) for layer in layers for p in layer}
    groups = [
        *(
            {"name": f"layer {number}", "params": list(layer), "base_lr": rates.lr * rates.layer_decay**above}
            for number, (layer, above) in enumerate(zip(layers, reversed(range(len(layers))), strict=True))
        ),
        {"name": "backbone", "params": [p for p in backbone if id(p) not in below], "base_lr": rates.lr},
        {"name": "head", "params": head, "base_lr": rates.lr * rates.head_multiplier},
        {"name": "loss", "params": learned, "base_lr": rates.lr * rates.loss_multiplier},
    ]
    return [group | {"lr": group["base_lr"]} for group in groups if group["params"]]


def build_optimiser(groups: list[dict[str, Any]], rates: Rates) -> torch.optim.Optimizer:
    """The optimiser of that name over the groups, which writes the weights in one pass."""
    if rates.name == "sgd":
        return torch.optim.SGD(groups, momentum=rates.momentum, weight_decay=rates.weight_decay, fused=True)
    adam = torch.optim.AdamW if rates.name == "adamw" else torch.optim.Adam
    return adam(groups, weight_decay=rates.weight_decay, eps=rates.eps, fused=True)


def set_rates(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """Rates of all groups to their base times the schedule's factor."""
    for group in optimiser.param_groups:
        group["lr"] = group["base_lr"] * factor


@dataclass(frozen=True)
class Schedule:
    """How the rates of all groups go down together.

    Attributes:
        name: ``constant``, ``step`` (times ``gamma`` every ``every_epochs``) or ``cosine`` (to 0 at the end).
        ramp_steps: the first steps rise linearly from 0; a ramp of the rate, no frozen backbone.
        every_epochs: of ``step``.
        gamma: of ``step``.
    """

    name: Literal["constant", "step", "cosine"] = "constant"
    ramp_steps: int = 0
    every_epochs: int = 10
    gamma: float = 0.1

    def factor(self, step: int, steps_per_epoch: int, total_steps: int) -> float:
        """What the base rates are multiplied by at a step (counted from 0).

        Example:
            >>> Schedule("step", every_epochs=2, gamma=0.1).factor(50, steps_per_epoch=10, total_steps=100)
            0.010000000000000002
        """
        ramp = min(1.0, (step + 1) / self.ramp_steps) if self.ramp_steps else 1.0
        if self.name == "step":
            return float(ramp * self.gamma ** (step // max(steps_per_epoch, 1) // self.every_epochs))
        if self.name == "cosine":
            return ramp * 0.5 * (1 + math.cos(math.pi * min(step / max(total_steps, 1), 1.0)))
        return ramp


class MovingAverage(nn.Module):
    """A copy of a model whose floating point tensors follow it slowly: ``a <- decay a + (1 - decay) w``."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move towards the model; counters are copied. On a device each kind is one launch for all tensors."""
        own, new = (list(each.state_dict().values()) for each in (self.model, model))
        weights = [place for place, tensor in enumerate(own) if tensor.is_floating_point()]
        counters = [place for place, tensor in enumerate(own) if not tensor.is_floating_point()]
        if weights:
            torch._foreach_lerp_([own[i] for i in weights], [new[i] for i in weights], 1 - self.decay)
        if counters:
            torch._foreach_copy_([own[i] for i in counters], [new[i] for i in counters])


def interpolate(model: nn.Module, start: Mapping[str, Tensor], share: float) -> None:
    r"""Put a trained model back towards its start: :math:`\theta \leftarrow (1 - s)\,\theta_0 + s\,\theta`.

    Fine-tuning gains on what it sees and loses some of what the network knew before; a point between has much of both.
    Wortsman et al.: Robust fine-tuning of zero-shot models, CVPR 2022 (WiSE-FT).

    Args:
        model: trained; changed in place.
        start: its state before the training.
        share: s, 0 for the start, 1 for the trained model.

    Example:
        >>> model = nn.Linear(1, 1)
        >>> start = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
        >>> weight = model.weight.detach().clone()
        >>> interpolate(model, start, 0.5)
        >>> torch.equal(model.weight, weight / 2)
        True
    """
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.lerp(start[name].to(value.device), value, share))
