"""The doors to the parts that the base install does not bring, each opened on first use."""

from __future__ import annotations

from typing import Any

from similis.values import part

_EXTRAS = {"pyarrow": "vision", "PIL": "vision", "fsspec": "vision", "lance": "lance", "scipy": "study"}


def extra(module: str) -> Any:
    """The module of that name, or an error that names the extra which brings it.

    Args:
        module: dotted name, e.g. ``pyarrow.parquet``.

    Example:
        >>> extra("pyarrow").__name__
        'pyarrow'
    """
    top = module.partition(".")[0]
    return part(module, top, _EXTRAS[top])
