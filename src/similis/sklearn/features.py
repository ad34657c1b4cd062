"""From raw rows to features and a first map on them: one unit for all columns, and kernels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import issparse
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from similis.registry import unknown
from similis.sklearn.problem import (
    RIDGE,
    Array,
    Groups,
    IntArray,
    class_deviations,
    covariance,
    factor,
    squared_distances,
    to_dense,
    whitening,
)
from similis.values import UserError

INITS = ("auto", "identity", "pca", "lda", "whitened", "random")
KERNELS = ("linear", "rbf", "poly", "precomputed")
CHUNK = 4096  # rows of a pass over a large table
LEAST, MOST = 1e-145, 1e145  # size of numbers whose squares, and those of their inverses, are finite
LEAST_EIGENVALUE = 1e-10  # of the largest: directions below it are rounding


@dataclass(frozen=True)
class Features:
    r"""Centred columns times a basis: scaled raw columns, or combinations of kernel columns.

    ``mean`` (m,) is that of the columns, 0 for a sparse table, which stays sparse. ``basis`` is one factor for each
    column (m,), or (m, q) for combinations of kernel columns: similarities :math:`e^{-\gamma |x - z|^2}` (rbf) or
    :math:`(x \cdot z + c)^q` (poly) of rows to landmarks. Landmarks are scaled rows (m, D), or the numbers (m,) of
    columns if the kernel is precomputed. With all rows as landmarks, squared distances of features are those of
    the kernel, :math:`k(x, x) - 2 k(x, z) + k(z, z)`.
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
        return pairwise_kernels(scaled, self.landmarks, metric=self.kernel, **self.options)

    def transform(self, rows: Any) -> Any:
        """Features (n, q) of raw rows (n, D)."""
        columns = self.columns(rows)
        if issparse(columns):
            return columns.multiply(self.basis).tocsr()
        centred = columns - self.mean
        return centred * self.basis if self.basis.ndim == 1 else centred @ self.basis

    def fold(self, components: Array) -> Array:
        """The map (r, m) on centred columns that equals the map (r, q) on features."""
        return components * self.basis if self.basis.ndim == 1 else components @ self.basis.T


def check_column_range(rows: Any) -> None:
    """Refuse columns whose squares would leave the range of double precision."""
    sizes = np.maximum(*(np.abs(to_dense(end(axis=0))).ravel() for end in (rows.max, rows.min))).astype(np.float64)
    for column in np.flatnonzero((sizes > MOST) | ((sizes > 0) & (sizes < LEAST)))[:1]:
        raise UserError(
            f"column {column} has numbers up to {sizes[column]:.3g}; rescale it so that they lie between "
            f"{LEAST:g} and {MOST:g} in size, or drop it"
        )


def moments(rows: Any, weights: Array) -> tuple[Array, Array]:
    """Mean and variance of the columns, chunk by chunk; a variance that is rounding of the mean is 0."""
    shift = 0.0 if issparse(rows) else rows[0].astype(np.float64)  # squares of large numbers cancel
    first, second = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for chunk in gen_batches(rows.shape[0], CHUNK):
        table = rows[chunk].astype(np.float64) if issparse(rows) else rows[chunk] - shift
        share = weights[chunk] / weights.sum()
        first += table.T @ share
        second += (table.power(2) if issparse(rows) else table * table).T @ share
    mean, variance = first + shift, second - first**2
    return mean, np.where(variance <= (1e-12 * mean) ** 2, 0.0, variance)


def check_kernel(name: str, gamma: float | None, degree: Any, coef0: float) -> None:
    """Refuse an unknown kernel and options that it cannot have.

    The polynomial kernel (x.z + c)^q is positive semi-definite for whole q >= 1 and c >= 0 only.
    """
    if name not in KERNELS:
        raise UserError(unknown("kernel", name, list(KERNELS)))
    if name == "poly" and (isinstance(degree, bool) or not isinstance(degree, Integral) or degree < 1):
        raise UserError(f"degree is {degree!r}; a polynomial kernel needs a whole number from 1 on")
    if name == "poly" and coef0 < 0:
        raise UserError(f"coef0 is {coef0}; a polynomial kernel needs 0 or more")
    if gamma is not None and gamma <= 0:
        raise UserError(f"gamma is {gamma}; it must be above 0 (1 / (2 sigma^2) for a Gaussian of width sigma)")


def kernel_features(kernel: str, options: dict[str, float], inputs: Features, rows: Any, chosen: IntArray) -> Features:
    """Features of a kernel whose landmarks are the chosen rows; a part of all rows is Nystroem's method."""
    if kernel == "precomputed" and rows.shape[0] != rows.shape[1]:
        raise UserError(f"a precomputed kernel has shape {rows.shape}; fit needs all rows with all rows, (n, n)")
    landmarks = chosen if kernel == "precomputed" else inputs.transform(rows[chosen])
    zero = np.zeros(len(chosen))
    features = Features(zero, zero, kernel, options, inputs, landmarks)
    return replace(features, basis=kernel_basis(features.columns(rows[chosen])))


def kernel_basis(matrix: Array) -> Array:
    """Columns V / sqrt(eigenvalue) of a kernel matrix: kernel columns times it are features."""
    if not np.isfinite(matrix).all():
        raise UserError("the kernel has values that are not finite; use standardise=True or a lower degree")
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    top = float(values[-1])
    if values[0] < -1e-6 * max(abs(top), 1e-300):
        raise UserError(
            f"the kernel matrix has the eigenvalue {values[0]:.3g}; a kernel has none below 0: "
            "pass a positive semi-definite matrix, or its psd_projection"
        )
    keep = np.flatnonzero(values > LEAST_EIGENVALUE * top)[::-1]  # leading directions first
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))


def typical_distance(rows: Array, neighbor: int = 3) -> float:
    """Median distance of a row to its third nearest neighbour; 1 where all rows are equal."""
    place = min(neighbor, len(rows) - 1)  # the nearest is the row itself
    near = np.partition(squared_distances(rows), place, axis=1)[:, place]
    near = near if np.median(near) > 0 else near[near > 0]
    return float(np.sqrt(np.median(near))) if len(near) else 1.0


def first_map(name: str, rows: Any, groups: Groups | None, components: int, generator: np.random.Generator) -> Array:
    """A map (r, q) of features (n, q): leading directions of one kind.

    ``identity`` are leading columns, ``lda`` directions that part the classes and then those of ``pca``, ``whitened``
    has unit covariance. ``auto`` is the identity at full rank, ``lda`` below the number of classes, ``pca`` between,
    and ``random`` for sparse rows of lower rank. Rows stand in the order of ``groups``, None without labels.
    """
    if name not in INITS:
        raise UserError(unknown("init", name, list(INITS)))
    width, classes = rows.shape[1], 0 if groups is None else len(groups.starts) - 1
    if name == "auto":
        few = "random" if issparse(rows) else "lda" if components < classes else "pca"
        name = few if components < width else "identity"
    if name == "identity":
        return np.eye(components, width)
    if name == "random":
        return np.asarray(generator.standard_normal((components, width)) / np.sqrt(width))
    if issparse(rows):
        raise UserError(f"init={name!r} needs a dense table; use 'identity' or 'random' with a sparse one")
    if name == "whitened":
        return whitening(covariance(rows), RIDGE)[:components]
    principal = np.asarray(normalize(factor(covariance(rows), components)))
    if name == "pca" or groups is None:
        return principal
    parting = discriminants(rows, groups)[: min(components, classes - 1)]
    return np.vstack([parting, principal[: components - len(parting)]])


def discriminants(rows: Array, groups: Groups) -> Array:
    """Unit directions by falling ratio of the spread between classes to the spread within."""
    centred, inside = rows - rows.mean(0), class_deviations(rows, groups)
    within = inside.T @ inside
    ridge = RIDGE * max(float(np.trace(within)) / len(within), 1e-12) * np.eye(len(within))
    _, vectors = eigh(centred.T @ centred - within, within + ridge)
    return np.asarray(normalize(vectors[:, ::-1].T))
