"""The door to scikit-learn and scipy: present, or an error that names the extra."""

from __future__ import annotations

from typing import Any

from similis import values

NAMES = {"sklearn": "scikit-learn", "scipy": "scipy"}


def part(module: str) -> Any:
    """The module of that dotted name, or an error that names the extra which brings it.

    Example:
        >>> part("scipy.optimize").__name__
        'scipy.optimize'
    """
    return values.part(module, NAMES[module.partition(".")[0]], "sklearn")
