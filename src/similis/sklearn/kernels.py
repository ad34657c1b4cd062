"""Kernels: similarity to landmark rows as new columns, whose learned combinations make a curved metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from similis.registry import unknown
from similis.sklearn.groups import Whole
from similis.sklearn.matrix import Array
from similis.values import UserError, import_extra

KERNELS = ("linear", "rbf", "poly", "precomputed")
LEAST = 1e-10  # of the largest eigenvalue: directions below it are rounding


@dataclass(frozen=True)
class Kernel:
    """A kernel with its landmarks; ``basis`` (m, q) turns kernel columns into features.

    Features of all rows as landmarks reproduce the kernel: their distances are
    :math:`k(x, x) - 2 k(x, z) + k(z, z)`. A map G on features is the combination G basis^T of kernel columns.
    """

    name: str
    gamma: float
    degree: int
    coef0: float
    landmarks: Any = None
    chosen: Whole | None = None  # with a precomputed kernel: the columns that belong to landmarks
    basis: Array = None  # type: ignore[assignment]

    def columns(self, rows: Any) -> Array:
        """Kernel of rows with the landmarks, (n, m)."""
        if self.name == "precomputed":
            return np.asarray(rows, dtype=np.float64)[:, self.chosen]
        return kernel_matrix(self, rows, self.landmarks)


def checked_kernel(name: str, gamma: float | None, degree: Any, coef0: float, width: int) -> Kernel | None:
    """A kernel without landmarks yet, None for ``linear``; a degree that is no whole number is refused.

    The polynomial kernel (x.z + c)^q is positive semi-definite for whole q >= 1 and c >= 0 only.

    Example:
        >>> checked_kernel("poly", None, 2, 1.0, 5).degree
        2
    """
    if name not in KERNELS:
        raise UserError(unknown("kernel", name, list(KERNELS)))
    if name == "poly" and (isinstance(degree, bool) or not isinstance(degree, Integral) or degree < 1):
        raise UserError(f"degree is {degree!r}; a polynomial kernel needs a whole number from 1 on")
    if name == "poly" and coef0 < 0:
        raise UserError(f"coef0 is {coef0}; a polynomial kernel needs 0 or more")
    if gamma is not None and gamma <= 0:
        raise UserError(f"gamma is {gamma}; it must be above 0 (1 / (2 sigma^2) for a Gaussian of width sigma)")
    return None if name == "linear" else Kernel(name, 1.0 / width if gamma is None else gamma, int(degree), coef0)


def kernel_matrix(kernel: Kernel, rows: Any, others: Any) -> Array:
    r"""Gaussian :math:`e^{-\gamma |x - z|^2}` or polynomial :math:`(x \cdot z + c)^q` of rows with rows."""
    pairwise = import_extra("sklearn.metrics.pairwise")
    if kernel.name == "rbf":
        return np.asarray(pairwise.rbf_kernel(rows, others, gamma=kernel.gamma))
    made = pairwise.polynomial_kernel(rows, others, degree=kernel.degree, gamma=1.0, coef0=kernel.coef0)
    return np.asarray(made)


def with_landmarks(kernel: Kernel, rows: Any, limit: int, seed: int) -> Kernel:
    """The kernel with all rows as landmarks, or with ``limit`` of them by Nystroem's method.

    Args:
        kernel: from :func:`checked_kernel`.
        rows: scaled rows (n, D), or a kernel matrix (n, n).
        limit: most landmarks.
        seed: of the choice of landmarks.
    """
    number = rows.shape[0]
    if kernel.name == "precomputed":
        if rows.shape[0] != rows.shape[1]:
            raise UserError(f"a precomputed kernel has shape {rows.shape}; fit needs all rows with all rows, (n, n)")
        every = np.arange(number)
        chosen = every if number <= limit else np.sort(np.random.default_rng(seed).permutation(number)[:limit])
        own = np.asarray(rows, dtype=np.float64)[np.ix_(chosen, chosen)]
        return replace(kernel, chosen=chosen, basis=basis_of(own))
    if number <= limit:
        return replace(kernel, landmarks=rows, basis=basis_of(kernel_matrix(kernel, rows, rows)))
    gaussian = kernel.name == "rbf"
    made = import_extra("sklearn.kernel_approximation").Nystroem(
        kernel="rbf" if gaussian else "polynomial",
        gamma=kernel.gamma if gaussian else 1.0,
        degree=None if gaussian else kernel.degree,
        coef0=None if gaussian else kernel.coef0,
        n_components=limit,
        random_state=seed,
    )
    made.fit(rows)
    return replace(kernel, landmarks=made.components_, basis=made.normalization_.T)


def basis_of(matrix: Array) -> Array:
    """Columns V / sqrt(eigenvalue) of a kernel matrix: kernel columns times it are features.

    Example:
        >>> k = np.array([[4.0, 0.0], [0.0, 1.0]])
        >>> (k @ basis_of(k) @ (k @ basis_of(k)).T).round(6).tolist()
        [[4.0, 0.0], [0.0, 1.0]]
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    top = float(values[-1]) if len(values) else 0.0
    if values[0] < -1e-6 * max(abs(top), 1e-300):
        raise UserError(
            f"the kernel matrix has the eigenvalue {values[0]:.3g}; a kernel has none below 0: "
            "pass a positive semi-definite matrix, or its psd_projection"
        )
    keep = np.flatnonzero(values > LEAST * top)[::-1]  # leading directions first
    return np.asarray(vectors[:, keep] / np.sqrt(values[keep]))
