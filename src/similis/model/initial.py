"""Initial weights as a function of a seed, without touching PyTorch's global generator."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from similis.values import UserError

Net = TypeVar("Net", bound=nn.Module)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm)


def generator_of(seed: int, part: str) -> torch.Generator:
    """A generator of its own for each part, so that a head starts alike on every backbone.

    Example:
        >>> generator_of(1, "head").initial_seed() == generator_of(1, "backbone").initial_seed()
        False
    """
    number = int.from_bytes(hashlib.sha256(f"{seed}/{part}".encode()).digest()[:8], "big")
    return torch.Generator().manual_seed(number >> 1)  # 63 bits: manual_seed takes a signed number


def initialised(make: Callable[[], Net], generator: torch.Generator) -> Net:
    """The network that ``make`` builds, its weights drawn from ``generator`` in the order of its layers.

    It is built without storage first: PyTorch's constructors would draw from the global generator.
    """
    with torch.device("meta"):
        net = make()
    net.to_empty(device="cpu")
    for name, layer in net.named_modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, NORMS):
            layer.reset_parameters()
        elif any(True for _ in layer.parameters(recurse=False)):
            raise UserError(
                f"the layer {name!r} of {type(net).__name__} has no rule for its start; add one to initial.py"
            )
    return net
