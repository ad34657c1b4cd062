"""What a function says of itself: its keyword options and its source text."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable
from typing import Any

from similis.values import OptionValue


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
