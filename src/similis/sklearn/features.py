"""From raw rows to features and a first map on them: one unit for all columns, and kernels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import issparse
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from similis.registry import check_known
from similis.values import UserError

Array = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
INITS = ("auto", "identity", "pca", "lda", "whitened", "random")
CHUNK = 4096  # rows of a pass over a large table
LEAST, MOST = 1e-145, 1e145  # size of numbers whose squares, and those of their inverses, are finite
LEAST_EIGENVALUE = 1e-10  # of the largest: directions below it are rounding
RIDGE = 1e-3  # share of the mean variance added to a covariance that has no inverse


@dataclass(frozen=True)
class Features:
    r"""Centred columns times a basis: scaled raw columns, or combinations of kernel columns.

    ``mean`` (m,) is that of the columns, 0 for a sparse table, which stays sparse. ``basis`` is one factor for each
    column (m,), or (m, q) for combinations of kernel columns: similarities :math:`e^{-\gamma |x - z|^2}` (rbf) or
    :math:`(x \cdot z + c)^q` (poly) of rows to landmarks. Landmarks are scaled rows (m, D), or the numbers (m,) of
    columns if the kernel is precomputed. With all rows as landmarks, squared distances of features are those of
    the kernel, :math:`k(x, x) - 2 k(x, z) + k(z, z)`; with fewer, this is Nystroem's method.
    """

    mean: Array
    basis: Array
    kernel: str = "linear"
    options: dict[str, float] = field(default_factory=dict)
    inputs: Features | None = None  # scale rows before the kernel
    landmarks: Any = None

    @np.errstate(over="ignore")  # whoever uses the columns looks at them
    def columns(self, rows: Any) -> Any:
        """What a folded map is applied to: raw columns, or kernel columns (n, m)."""
        if self.inputs is None:
            return rows
        if self.kernel == "precomputed":
            return to_dense(rows)[:, self.landmarks].astype(np.float64)
        scaled = self.inputs.transform(rows)
        return pairwise_kernels(scaled, self.landmarks, metric=self.kernel, filter_params=True, **self.options)

    def transform(self, rows: Any) -> Any:
        """Features (n, q) of raw rows (n, D)."""
        columns = self.columns(rows)
        if issparse(columns):
            return columns.multiply(self.basis).tocsr()
        centred = columns - self.mean
        return centred * self.basis if self.basis.ndim == 1 else centred @ self.basis

    def with_kernel(self, kernel: str, options: dict[str, float], rows: Any, chosen: IntArray) -> Features:
        """Features of a kernel on these ones, with the chosen rows as landmarks; not yet centred."""
        if kernel == "precomputed" and rows.shape[0] != rows.shape[1]:
            raise UserError(f"a precomputed kernel has shape {rows.shape}; fit needs all rows with all rows, (n, n)")
        landmarks = chosen if kernel == "precomputed" else self.transform(rows[chosen])
        found = Features(np.zeros(len(chosen)), np.zeros(0), kernel, options, self, landmarks)
        matrix = found.columns(rows[chosen])
        if not np.isfinite(matrix).all():
            raise UserError("the kernel has values that are not finite; use standardise=True or a lower degree")
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
        if values[0] < -1e-6 * max(abs(values[-1]), 1e-300):
            raise UserError(f"the kernel matrix has the eigenvalue {values[0]:.3g}; pass a positive semi-definite one")
        keep = np.flatnonzero(values > LEAST_EIGENVALUE * values[-1])[::-1]  # leading directions first
        return replace(found, basis=vectors[:, keep] / np.sqrt(values[keep]))


def moments(rows: Any, weights: Array) -> tuple[Array, Array]:
    """Mean and variance of the columns, 0 if it is rounding of the mean; refuses columns whose squares overflow."""
    sizes = np.maximum(*(np.abs(to_dense(end(axis=0))).ravel() for end in (rows.max, rows.min))).astype(np.float64)
    for column in np.flatnonzero((sizes > MOST) | ((sizes > 0) & (sizes < LEAST)))[:1]:
        found = f"column {column} has numbers up to {sizes[column]:.3g}"
        raise UserError(f"{found}; rescale it to sizes between {LEAST:g} and {MOST:g}, or drop it")
    shift = 0.0 if issparse(rows) else rows[0].astype(np.float64)  # squares of large numbers cancel
    first, second = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for chunk in gen_batches(rows.shape[0], CHUNK):
        table = rows[chunk].astype(np.float64) if issparse(rows) else rows[chunk] - shift
        share = weights[chunk] / weights.sum()
        first += table.T @ share
        second += (table.power(2) if issparse(rows) else table * table).T @ share
    mean, variance = first + shift, second - first**2
    return mean, np.where(variance <= (1e-12 * mean) ** 2, 0.0, variance)


def typical_distance(rows: Any) -> float:
    """Median distance of a row to its third nearest neighbour; 1 where all rows are equal."""
    place = min(3, rows.shape[0] - 1)  # the nearest is the row itself
    near = np.partition(squared_distances(to_dense(rows)), place, axis=1)[:, place]
    near = near if np.median(near) > 0 else near[near > 0]
    return float(np.sqrt(np.median(near))) if len(near) else 1.0


def first_map(name: str, rows: Any, labels: IntArray | None, components: int, generator: np.random.Generator) -> Array:
    """A map (r, q) of features (n, q): leading directions of one kind.

    ``identity`` are leading columns, ``lda`` directions that part the classes and then those of ``pca``, ``whitened``
    has unit covariance. ``auto`` is the identity at full rank, ``lda`` below the number of classes, ``pca`` between,
    and ``random`` for sparse rows of lower rank. Pairs and triplets have no ``labels``.
    """
    check_known("init", name, INITS)
    width, classes = rows.shape[1], 0 if labels is None else len(np.unique(labels))
    if name == "auto":
        few = "random" if issparse(rows) else "lda" if components < classes else "pca"
        name = few if components < width else "identity"
    if name == "identity":
        return np.eye(components, width)
    if name == "random":
        return np.asarray(generator.standard_normal((components, width)) / np.sqrt(width))
    if issparse(rows):
        raise UserError(f"init={name!r} needs a dense table; use 'identity' or 'random' with a sparse one")
    spread = covariance(rows)
    if name == "whitened":
        return unit_covariance(spread, 0.0 if np.linalg.cond(spread) < 1e12 else RIDGE)[:components]
    directions = np.linalg.eigh(spread)[1].T[::-1]
    if name == "lda" and labels is not None:  # by falling ratio of the spread of all rows to that within classes
        order = np.argsort(labels, kind="stable")
        within = covariance(class_deviations(rows[order], labels[order]))
        ridge = RIDGE * max(float(np.trace(within)) / width, 1e-12) * np.eye(width)
        directions = np.vstack([normalize(eigh(spread, within + ridge)[1].T[::-1])[: classes - 1], directions])
    return np.asarray(directions[:components])


def squared_distances(rows: Array) -> Array:
    """Squared Euclidean distances (n, n) of all rows; in place, which is half the time of scikit-learn's."""
    norms = np.einsum("nd,nd->n", rows, rows)
    squared = rows @ (-2.0 * rows.T)
    squared += norms[:, None]
    squared += norms
    np.fill_diagonal(squared, 0.0)
    return np.maximum(squared, 0.0, out=squared)


def covariance(rows: Array, weights: Array | None = None) -> Array:
    """Sample covariance (D, D) of rows (n, D); weights count how often a row stands in the table."""
    return np.atleast_2d(np.cov(rows, rowvar=False, aweights=None if weights is None else weights / weights.mean()))


def unit_covariance(matrix: Array, ridge: float = 0.0) -> Array:
    r"""The map :math:`\mathrm{chol}(\Sigma)^{-1}`: Euclidean distance after it is Mahalanobis distance before it."""
    identity, mean = np.eye(len(matrix)), float(np.trace(matrix)) / len(matrix)
    return np.linalg.solve(np.linalg.cholesky(matrix + ridge * (mean or 1.0) * identity), identity)


def class_blocks(labels: IntArray) -> list[slice]:
    """The rows of each class, for sorted labels (n,)."""
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    return [slice(first, last) for first, last in pairwise(edges)]


def class_deviations(rows: Array, labels: IntArray) -> Array:
    """Rows sorted by class minus the mean of their class."""
    return np.vstack([rows[block] - rows[block].mean(0) for block in class_blocks(labels)])


def to_dense(rows: Any) -> Array:
    """A sparse table as an array."""
    return np.asarray(rows.toarray() if issparse(rows) else rows)
