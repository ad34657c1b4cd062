"""The logarithm of an inverse temperature, which a loss may learn, and its bound."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from similis.objective.comparison.proxies import Size
from similis.objective.terms.gradients import with_signature
from similis.values import UserError


def initial_log_scale(size: Size, *, temperature: float = 0.05, learnable: bool = False) -> Tensor | float:  # noqa: ARG001
    """log(1 / temperature) at the start.

    Args:
        size: of the loss; one number serves all classes.
        temperature: T, above 0.
        learnable: whether it is a parameter; otherwise it stays the number that it is.
    """
    if not temperature > 0:
        raise UserError(f"temperature is {temperature}; give a number above 0, such as 0.05")
    start = -math.log(temperature)
    return torch.tensor(start) if learnable else start


def bound_scale(log_scale: Tensor | float, most: float | None, like: Tensor) -> Tensor | float:
    """The scale exp(log_scale), at most ``most`` unless it is None; as a tensor it has the type and device of ``like``.

    Above the bound the gradient that would raise it further is 0 and the one that lowers it passes, as if the
    parameter had been clamped after each step.
    """
    most = math.inf if most is None else most
    if not isinstance(log_scale, Tensor):
        return min(math.exp(log_scale), most)
    bounded: Tensor = _BoundedAbove.apply(log_scale.to(like), math.log(most))  # type: ignore[no-untyped-call]
    return bounded.exp()


class _BoundedAbove(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(value: Tensor, most: float) -> Tensor:
        return value.clamp(max=most)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(inputs[0])
        ctx.most = inputs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (value,) = ctx.saved_tensors
        outward = (value >= ctx.most) & (gradients[0] < 0)  # a step against it would raise the value
        return torch.where(outward, 0.0, gradients[0]), None
