"""The losses as functions of embeddings, labels and, where a loss learns some, proxies.

Every registered loss is an attribute, those of plug-ins included. Their docstrings hold formula, paper and
costs; :func:`similis.loss` builds the same losses as modules with their parameters.

Example:
    >>> import torch
    >>> from similis.losses import contrastive
    >>> contrastive(torch.eye(4), torch.tensor([0, 0, 1, 1])).ndim
    0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from similis.registry import losses as _registered


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(f"module 'similis.losses' has no attribute {name!r}")
    known = {entry.name: entry.function for entry in _registered}
    if name not in known:
        raise AttributeError(f"there is no loss {name!r}; losses: {', '.join(known)}")
    return known[name]


def __dir__() -> list[str]:
    return sorted(entry.name for entry in _registered)
