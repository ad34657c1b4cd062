"""What a function says of itself: its keyword options and its source text."""

from __future__ import annotations

import hashlib
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from typing import Any

from similis.values import OptionValue, UserError


def keyword_defaults(function: Callable[..., Any]) -> dict[str, OptionValue]:
    """Keyword-only arguments that have a default, tensors and tuples of a miner left out."""
    hidden = {"references", "tuples", "generator", "first"}
    return {
        p.name: p.default
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.default is not p.empty and p.name not in hidden
    }


def source_text(function: Callable[..., Any]) -> str:
    """Source of the file (or the notebook's cell) that a function is in; nothing where there is none."""
    file = getattr(sys.modules.get(function.__module__), "__file__", None) or function.__code__.co_filename
    linecache.checkcache(file)
    return "".join(linecache.getlines(file))


def check_takes(name: str, function: Callable[..., Any], needs: Mapping[str, object]) -> None:
    """Refuse a function without an argument that it needs for a reason; arguments without one are not needed."""
    for argument, why in needs.items():
        if why and argument not in inspect.signature(function).parameters:
            raise UserError(f"{name} is registered with {why}; give it an argument `{argument}=None`, or drop that")


def code_identity(value: Any, what: str) -> str:
    """What tells the code of a class, a function or an object apart from other code: name, source, printed values.

    Args:
        value: a class, a function, or an object with its class.
        what: it is, for the error where its source cannot be read.
    """
    kind = value if inspect.isclass(value) or inspect.isroutine(value) else type(value)
    try:
        text = inspect.getsource(kind)
    except (OSError, TypeError):
        raise UserError(
            f"the source of {kind.__qualname__} cannot be read, so the run cannot tell it from another; name it: "
            f"named={{'{what}': 'NAME'}}"
        ) from None
    printed = "" if kind is value else repr(value)
    return f"{kind.__qualname__}-{hashlib.sha256(f'{text} {printed}'.encode()).hexdigest()[:12]}"
