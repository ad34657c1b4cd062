"""The matrix of a metric: distances, the cone of valid matrices, whitening, regularisers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similis.registry import unknown
from similis.values import UserError

Array = NDArray[np.floating[Any]]
Regulariser = Literal["frobenius", "trace", "similar"]
REGULARISERS = ("frobenius", "trace", "similar")


class Penalty(NamedTuple):
    """A regulariser r(A) with its weight; ``matrix`` is C of tr(AC), None for the identity."""

    kind: Regulariser
    weight: float
    matrix: Array | None = None


def pair_distances(x: Array, z: Array, metric: Array) -> Array:
    r"""Squared distances :math:`d_A(x, z) = (x - z)^T A (x - z)` of rows with rows.

    Shapes: x (n, D), z (n, D), metric (D, D) -> (n,).

    Example:
        >>> pair_distances(np.array([[0.0, 0.0]]), np.array([[1.0, 2.0]]), np.diag([4.0, 1.0])).tolist()
        [8.0]
    """
    difference = x - z
    return np.asarray(np.einsum("nd,de,ne->n", difference, metric, difference))


def all_distances(rows: Array) -> Array:
    """Squared Euclidean distances of all rows (n, D) with each other, (n, n); the diagonal is exactly 0.

    Example:
        >>> all_distances(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist()
        [[0.0, 25.0], [25.0, 0.0]]
    """
    norms = np.einsum("nd,nd->n", rows, rows)
    squared = rows @ rows.T
    squared *= -2.0
    squared += norms[:, None]
    squared += norms[None, :]
    np.maximum(squared, 0.0, out=squared)
    np.fill_diagonal(squared, 0.0)
    return squared


def psd_projection(matrix: Array) -> Array:
    """The nearest positive semi-definite matrix in the Frobenius norm: negative eigenvalues become 0.

    Example:
        >>> psd_projection(np.array([[1.0, 2.0], [2.0, 1.0]])).round(6).tolist()
        [[1.5, 1.5], [1.5, 1.5]]
    """
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
    return np.asarray(
        rows * np.where(signs == 0, 1.0, signs)[:, None] + 0.0
    )  # one of two equal answers; no negative zeros


def covariance(rows: Array, weights: Array | None = None) -> Array:
    """Sample covariance (D, D) of rows (n, D); weights count how often a row stands in the table."""
    return np.atleast_2d(np.cov(rows, rowvar=False, aweights=None if weights is None else weights / weights.mean()))


def whitening(matrix: Array, ridge: float = 0.0) -> Array:
    r"""The map :math:`W = \mathrm{chol}(\Sigma)^{-1}`: the covariance of W x is the identity.

    Euclidean distance after W is Mahalanobis distance before it, since :math:`W^T W = \Sigma^{-1}`.

    Args:
        matrix: covariance Sigma (D, D).
        ridge: share of the mean variance that is added to the diagonal, for columns that depend on others.

    Example:
        >>> whitening(np.diag([4.0, 1.0])).tolist()
        [[0.5, 0.0], [0.0, 1.0]]
    """
    size = len(matrix)
    mean = float(np.trace(matrix)) / size
    try:
        lower = np.linalg.cholesky(matrix + ridge * (mean or 1.0) * np.eye(size))
    except np.linalg.LinAlgError as error:
        raise UserError("the covariance has no inverse: columns depend on each other; pass a ridge above 0") from error
    return np.linalg.solve(lower, np.eye(size))


def penalty_of(kind: str, weight: float, similar: Array | None) -> Penalty:
    """The regulariser of that name; ``similar`` is the mean outer product over pairs of one class."""
    if kind not in REGULARISERS:
        raise UserError(unknown("regulariser", kind, list(REGULARISERS)))
    if weight < 0:
        raise UserError(f"regularisation is {weight}; it must be 0 or more")
    chosen: Regulariser = kind  # type: ignore[assignment]
    return Penalty(chosen, weight, similar if kind == "similar" else None)


def penalised(penalty: Penalty, metric: Array) -> tuple[float, Array]:
    r"""Value of the regulariser and its gradient in A.

    .. math::
        \text{frobenius: } \tfrac{1}{2} \lVert A \rVert_F^2, \qquad \text{trace: } \mathrm{tr}(A), \qquad
        \text{similar: } \mathrm{tr}(A C)

    Reference: Schultz, Joachims, NIPS 2003; Kwok, Tsang, ICML 2003; Weinberger, Saul, JMLR 2009.

    Example:
        >>> penalised(Penalty("frobenius", 2.0), np.eye(2))[0]
        2.0
    """
    weight = penalty.weight
    if penalty.kind == "frobenius":
        return 0.5 * weight * float((metric * metric).sum()), weight * metric
    gradient = np.eye(len(metric)) if penalty.matrix is None else penalty.matrix
    return weight * float((metric * gradient).sum()), weight * gradient
