"""A setting that holds inside a ``with`` block and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def within(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """The variable has this value inside, and what it had before afterwards.

    Example:
        >>> depth = ContextVar("depth", default=0)
        >>> with within(depth, 1):
        ...     inside = depth.get()
        >>> inside, depth.get()
        (1, 0)
    """
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
