"""Gradients that are written out: what a Function of its own needs, and products of rows with themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from similis.sphere import full_precision

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


class Gram(torch.autograd.Function):
    """Products of rows with themselves, X X^T. One product for the gradient, (G + G^T) X, instead of two."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(rows: Tensor) -> Tensor:
        """(r, D) -> (r, r)."""
        return rows @ rows.T

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        """Keep the rows."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """(r, r) -> (r, D), in full precision also inside autocast."""
        rows: Tensor = ctx.saved_tensors[0]
        with full_precision(rows):
            return (gradients[0] + gradients[0].T) @ rows
