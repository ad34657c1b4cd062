"""Small parts of gradients: a factor, and what a Function of its own needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from similis.values import Communicator

Forward = TypeVar("Forward", bound=Callable[..., Any])


def with_signature(forward: Forward) -> Forward:
    """The function with its signature at hand: torch asks for it in every call, and finding it takes long."""
    forward.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    return forward


def scale_gradient(value: Tensor, factor: float) -> Tensor:
    """The value as it is, with its gradient times a factor."""
    same = value.view_as(value)
    if same.requires_grad:
        same.register_hook(lambda gradient: gradient * factor)  # type: ignore[no-untyped-call]
    return same


def average_gradients(values: dict[str, Tensor], communicator: Communicator) -> dict[str, Tensor]:
    """The values as they are; their gradients are the means over the ranks, exchanged in one message."""
    averaged: tuple[Tensor, ...] = _AverageGradients.apply(communicator, *values.values())  # type: ignore[no-untyped-call]
    return dict(zip(values, averaged, strict=True))


class _AverageGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, communicator: Communicator, *values: Tensor) -> tuple[Tensor, ...]:
        ctx.communicator = communicator
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        means = [gradient.clone() for gradient in gradients]
        ctx.communicator.average(means)
        return (None, *means)
