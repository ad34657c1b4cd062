"""Small parts of gradients: a factor, and what a Function of its own needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

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
