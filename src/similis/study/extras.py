"""Parts of the extra ``study``, imported when they are used."""

from __future__ import annotations

from typing import Any

from similis.values import MissingExtraError


def scipy_stats() -> Any:
    """The module ``scipy.stats``."""
    try:
        from scipy import stats
    except ImportError as error:
        raise MissingExtraError("scipy", "study") from error
    return stats


def posthocs() -> Any:
    """The module ``scikit_posthocs``."""
    try:
        import scikit_posthocs  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingExtraError("scikit-posthocs", "study") from error
    return scikit_posthocs


def optuna() -> Any:
    """The module ``optuna``, told to speak of warnings only."""
    try:
        import optuna as found
    except ImportError as error:
        raise MissingExtraError("optuna", "study") from error
    found.logging.set_verbosity(found.logging.WARNING)
    return found
