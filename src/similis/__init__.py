"""Similis learns what "similar" means: losses, training, fair comparison and search for metric learning."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from similis.objective.module import Loss, loss

__version__ = "0.1.0"

# Public name -> module that defines it; imported on first use so that `import similis` stays light.
_PUBLIC = {
    "Loss": "similis.objective.module",
    "loss": "similis.objective.module",
}

__all__ = ["Loss", "__version__", "loss"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'similis' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
