"""Optimisers and their parameter groups: backbone, head, and what the loss learns at its own rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from similis.registry import unknown
from similis.values import UserError

OptimiserName = Literal["adamw", "adam", "sgd"]
OPTIMISERS = ("adamw", "adam", "sgd")


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
    """

    name: OptimiserName = "adamw"
    lr: float = 1e-4
    head_multiplier: float = 1.0
    loss_multiplier: float = 1.0
    weight_decay: float = 1e-4
    eps: float = 1e-8
    momentum: float = 0.9


def parameter_groups(
    model: nn.Module, head: Iterable[nn.Parameter], loss: nn.Module, rates: Rates
) -> list[dict[str, Any]]:
    """Every parameter of model and loss in exactly one named group.

    Args:
        model: the embedder.
        head: those of its parameters that are not the backbone's.
        loss: the objective; its parameters form the group ``loss``.
        rates: learning rates.
    """
    head = list(head)
    known = {id(p) for p in head}
    backbone = [p for p in model.parameters() if id(p) not in known]
    learned = [p for p in loss.parameters() if id(p) not in known | {id(p) for p in backbone}]
    groups = [
        {"name": "backbone", "params": backbone, "base_lr": rates.lr},
        {"name": "head", "params": head, "base_lr": rates.lr * rates.head_multiplier},
        {"name": "loss", "params": learned, "base_lr": rates.lr * rates.loss_multiplier},
    ]
    kept = [group | {"lr": group["base_lr"]} for group in groups if group["params"]]
    check_groups(model, loss, kept)
    return kept


def check_groups(model: nn.Module, loss: nn.Module, groups: list[dict[str, Any]]) -> None:
    """Refuse groups that leave a parameter out or hold one twice (a forgotten proxy never learns)."""
    held = [id(p) for group in groups for p in group["params"]]
    everything = {id(p): name for module in (model, loss) for name, p in module.named_parameters()}
    missing = [name for key, name in everything.items() if key not in held]
    if missing or len(held) != len(set(held)):
        raise UserError(f"parameters in no group: {missing or 'none'}; in two groups: {len(held) - len(set(held))}")


def build_optimiser(groups: list[dict[str, Any]], rates: Rates) -> torch.optim.Optimizer:
    """The optimiser of that name over the groups."""
    if rates.name == "adamw":
        return torch.optim.AdamW(groups, weight_decay=rates.weight_decay, eps=rates.eps)
    if rates.name == "adam":
        return torch.optim.Adam(groups, weight_decay=rates.weight_decay, eps=rates.eps)
    if rates.name == "sgd":
        return torch.optim.SGD(groups, lr=rates.lr, momentum=rates.momentum, weight_decay=rates.weight_decay)
    raise UserError(unknown("optimiser", rates.name, list(OPTIMISERS)))


def set_rates(optimiser: torch.optim.Optimizer, factor: float) -> None:
    """Rates of all groups to their base times the schedule's factor."""
    for group in optimiser.param_groups:
        group["lr"] = group["base_lr"] * factor
