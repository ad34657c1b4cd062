"""What a compiler must not trace. Imported while one traces, because PyTorch's decorators import it (3 s)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def constant(function: Callable[[], bool]) -> bool:
    """The answer of a function, read once and compiled in."""
    return function()


@torch.compiler.disable  # type: ignore[untyped-decorator]
def eagerly(function: Callable[..., Result], *arguments: object) -> Result:
    """The result of a function that depends on values, as it is without a compiler."""
    return function(*arguments)
