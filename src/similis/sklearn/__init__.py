"""A metric for tables: one scikit-learn estimator, its features, objectives and solvers.

Comes in: rows of measurements with labels, or pairs, or triplets. Goes out: a linear map whose distances mean
"similar", the matrix of that metric, and the share of each column in it.
scikit-learn and scipy come with the extra ``sklearn``.
To add an objective: a function as in ``objectives``, listed in ``learning.TABLE``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from similis.values import import_extra

if TYPE_CHECKING:
    from similis.sklearn.estimator import MetricLearner

__all__ = ["MetricLearner"]


def __getattr__(name: str) -> Any:
    if name != "MetricLearner":
        raise AttributeError(f"module 'similis.sklearn' has no attribute {name!r}")
    import_extra("sklearn")
    from similis.sklearn.estimator import MetricLearner

    return MetricLearner
