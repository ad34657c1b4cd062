"""The door to scikit-learn and scipy: present, or an error that names the extra."""

from __future__ import annotations

import importlib
from typing import Any

from similis.values import MissingExtraError

NAMES = {"sklearn": "scikit-learn", "scipy": "scipy"}


def part(module: str) -> Any:
    """The module of that dotted name, or an error that names the extra which brings it.

    Example:
        >>> part("scipy.optimize").__name__
        'scipy.optimize'
    """
    top = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != top:
            raise
        raise MissingExtraError(NAMES[top], "sklearn") from error
