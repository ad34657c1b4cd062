"""What a solver minimises: the mean of an objective over a table, as a function of the map G or of the matrix A.

An objective is a sum over pairs of rows. With w_ij its derivative by the squared distance of rows i and j, its
gradient by A is X^T L X, and by G it is 2 (X^T L Z)^T, where Z = X G^T and L is the Laplacian of w + w^T. So an
objective takes mapped rows z (n, r) and any rows y (n, q), and returns its value and L y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

Array = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
RIDGE = 1e-3  # share of the mean variance added to a covariance that has no inverse


def squared_distances(rows: Array) -> Array:
    """Squared Euclidean distances (n, n) of all rows; in place, which is half the time of scikit-learn's."""
    norms = np.einsum("nd,nd->n", rows, rows)
    squared = rows @ (-2.0 * rows.T)
    squared += norms[:, None]
    squared += norms
    np.fill_diagonal(squared, 0.0)
    return np.maximum(squared, 0.0, out=squared)


def psd_projection(matrix: Array) -> Array:
    """The nearest positive semi-definite matrix in the Frobenius norm: negative eigenvalues become 0."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def factor(metric: Array, components: int | None = None) -> Array:
    """A map G (r, D) with G^T G = A, rows in falling order of their eigenvalue; fewer rows: nearest of that rank.

    Example:
        >>> factor(np.diag([1.0, 4.0]), 1).round(6).tolist()
        [[0.0, 2.0]]
    """
    values, vectors = np.linalg.eigh((metric + metric.T) / 2.0)
    order = np.argsort(-values, kind="stable")[:components]
    rows = (vectors[:, order] * np.sqrt(np.maximum(values[order], 0.0))).T
    signs = np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(1)])
    return np.asarray(rows * np.where(signs == 0, 1.0, signs)[:, None] + 0.0)  # one of two signs; no negative zeros


def covariance(rows: Array, weights: Array | None = None) -> Array:
    """Sample covariance (D, D) of rows (n, D); weights count how often a row stands in the table."""
    return np.atleast_2d(np.cov(rows, rowvar=False, aweights=None if weights is None else weights / weights.mean()))


def whitening(matrix: Array, ridge: float = 0.0) -> Array:
    r"""The map :math:`W = \mathrm{chol}(\Sigma)^{-1}`: the covariance of W x is the identity.

    Euclidean distance after W is Mahalanobis distance before it, since :math:`W^T W = \Sigma^{-1}`. ``ridge`` is the
    share of the mean variance that is added to the diagonal, for columns that depend on others.

    Example:
        >>> whitening(np.diag([4.0, 1.0])).tolist()
        [[0.5, 0.0], [0.0, 1.0]]
    """
    size = len(matrix)
    mean = float(np.trace(matrix)) / size
    return np.linalg.solve(np.linalg.cholesky(matrix + ridge * (mean or 1.0) * np.eye(size)), np.eye(size))


class Penalty(NamedTuple):
    r"""A regulariser r(A) with its weight; ``similar`` (D, D) is the mean outer product over pairs of one class, C.

    .. math::
        \text{frobenius: } \tfrac{1}{2} \lVert A \rVert_F^2, \qquad \text{trace: } \mathrm{tr}(A), \qquad
        \text{similar: } \mathrm{tr}(A C)

    Reference: Schultz, Joachims, NIPS 2003; Kwok, Tsang, ICML 2003; Weinberger, Saul, JMLR 2009.
    """

    kind: str
    weight: float
    similar: Array | None = None

    def at_metric(self, metric: Array) -> tuple[float, Array]:
        """Value and gradient (D, D) at the matrix A."""
        if self.kind == "frobenius":
            return 0.5 * self.weight * float((metric * metric).sum()), self.weight * metric
        gradient = self.weight * (np.eye(len(metric)) if self.similar is None else self.similar)
        return float((metric * gradient).sum()), gradient

    def at_map(self, components: Array) -> tuple[float, Array]:
        """Value and gradient (r, D) at the map G, which is 2 G times that by A."""
        value, gradient = self.at_metric(components.T @ components)
        return value, 2.0 * components @ gradient


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
