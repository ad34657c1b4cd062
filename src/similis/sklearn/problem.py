"""What a solver minimises: the mean of an objective over a table, as a function of the map G or of the matrix A.

An objective is a sum over pairs of rows. With w_ij its derivative by the squared distance of rows i and j, its
gradient by A is X^T L X, and by G it is 2 (X^T L Z)^T, where Z = X G^T and L is the Laplacian of w + w^T. So an
objective takes mapped rows z (n, r) and any rows y (n, q), and returns its value and L y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from similis.sklearn.matrix import Array, IntArray, Penalty, factor

Evaluation = Callable[[Array, Array], tuple[float, Array]]  # (z, y) -> value, L y


class Groups(NamedTuple):
    """Rows sorted by class, so that positives are contiguous blocks and need no mask: class c begins at ``starts[c]``.

    ``weights`` (n,) count the sorted rows; ``order`` (n,) leads from sorted rows to the given ones.
    """

    starts: IntArray
    weights: Array
    order: IntArray

    def blocks(self) -> Iterator[slice]:
        """The rows of each class."""
        for first, last in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield slice(int(first), int(last))


def group_rows(labels: IntArray, weights: Array | None = None) -> Groups:
    """Groups of integer labels (n,).

    Example:
        >>> groups = group_rows(np.array([1, 0, 1]))
        >>> groups.order.tolist(), [(b.start, b.stop) for b in groups.blocks()]
        ([1, 0, 2], [(0, 1), (1, 3)])
    """
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(labels[order])) + 1, [len(labels)]])
    return Groups(starts, np.ones(len(labels)) if weights is None else weights[order], order)


def class_deviations(rows: Array, groups: Groups) -> Array:
    """Sorted rows minus the mean of their class."""
    return np.vstack([rows[block] - rows[block].mean(0) for block in groups.blocks()])


class Problem(NamedTuple):
    """The mean of an objective over rows (n, D), sparse or dense, and a regulariser.

    ``share`` is one over the total weight: solvers see means, so that their tolerances fit every size.
    """

    rows: Any
    evaluate: Evaluation
    share: float
    penalty: Penalty = Penalty("trace", 0.0)

    def at_map(self, components: Array) -> tuple[float, Array]:
        """Value and gradient (r, D) at the map G."""
        z = np.ascontiguousarray(self.rows @ components.T)
        value, pull = self.evaluate(z, z)
        extra, gradient = self.penalty.at_map(components)
        return self.share * value + extra, gradient + 2.0 * self.share * (self.rows.T @ pull).T

    def at_metric(self, metric: Array) -> tuple[float, Array]:
        """Value and gradient (D, D) at the matrix A."""
        value, pull = self.evaluate(self.rows @ factor(metric).T, to_dense(self.rows))
        gradient = self.share * np.asarray(self.rows.T @ pull)
        extra, slope = self.penalty.at_metric(metric)
        return self.share * value + extra, (gradient + gradient.T) / 2.0 + slope


def apply_laplacian(pair: Array, y: Array) -> Array:
    """Row i is the sum over j of v_ij (y_i - y_j), for symmetric weights v = w + w^T of pairs, (n, n)."""
    return np.asarray(pair.sum(1)[:, None] * y - pair @ y)


def to_dense(rows: Any) -> Array:
    """A sparse table as an array."""
    return np.asarray(rows.toarray() if issparse(rows) else rows)
