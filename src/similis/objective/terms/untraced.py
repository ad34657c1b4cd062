"""What a compiler must not trace. Imported while one traces, because PyTorch's decorators import it (3 s)."""

from __future__ import annotations

from collections.abc import Callable

import torch


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def constant(function: Callable[[], bool]) -> bool:
    """The answer of a function, read once and compiled in."""
    return function()
