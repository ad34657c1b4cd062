"""Parts of the extra ``study``, imported when they are used."""

from __future__ import annotations

from typing import Any

from similis.values import part


def scipy_stats() -> Any:
    """The module ``scipy.stats``."""
    return part("scipy.stats", "scipy", "study")


def optuna() -> Any:
    """The module ``optuna``, told to speak of warnings only."""
    found = part("optuna", "optuna", "study")
    found.logging.set_verbosity(found.logging.WARNING)
    return found
