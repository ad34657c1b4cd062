"""From raw rows to the columns that a metric is learned on: one unit for all columns, and kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from similis.sklearn.kernels import Kernel
from similis.sklearn.matrix import Array, all_distances

CHUNK = 4096  # rows of a pass over a large table


@dataclass(frozen=True)
class Features:
    """How a row becomes features: centred and scaled columns, or combinations of kernel columns.

    ``mean`` and ``scale`` (D,) belong to raw columns; ``unit`` is a typical distance of near rows, so that an
    objective starts in its own range whatever the units of the table; ``centre`` is the mean kernel feature.
    """

    mean: Array
    scale: Array
    kernel: Kernel | None = None
    centre: Array | None = None
    unit: float = 1.0

    def of(self, rows: Any) -> Any:
        """Features (n, q) of raw rows (n, D); sparse rows stay sparse without a kernel."""
        scaled = self.scaled(rows)
        if self.kernel is None:
            return scaled * (1.0 / self.unit)
        features = self.kernel.columns(scaled) @ self.kernel.basis
        return (features if self.centre is None else features - self.centre) / self.unit

    def scaled(self, rows: Any) -> Any:
        """Rows with unit columns; a sparse table is not centred, a kernel matrix is left alone."""
        if self.kernel is not None and self.kernel.name == "precomputed":
            return rows
        if hasattr(rows, "multiply"):
            return rows.multiply(1.0 / self.scale).tocsr()
        return (np.asarray(rows, dtype=np.float64) - self.mean) / self.scale

    def folded(self, components: Array) -> tuple[Array, Array]:
        """The map (r, D) on raw columns (or on kernel columns) that equals G on features, and its offset (r,)."""
        if self.kernel is None:
            raw = components / (self.scale * self.unit)
            return raw, raw @ self.mean
        centre = np.zeros(components.shape[1]) if self.centre is None else self.centre
        return components @ self.kernel.basis.T / self.unit, components @ centre / self.unit

    def unfolded(self, components: Array) -> Array:
        """The map on features that equals a given map (r, D) on raw columns."""
        return components * (self.scale * self.unit)

    def columns(self, rows: Any) -> Any:
        """What the folded map is applied to: raw columns, or kernel columns."""
        return rows if self.kernel is None else self.kernel.columns(self.scaled(rows))


def moments(rows: Any, weights: Array, standardise: bool) -> tuple[Array, Array]:
    """Mean and standard deviation of the columns in one pass of chunks; 1 where a column is constant.

    Sparse tables keep their zeros: their mean counts as 0.

    Example:
        >>> moments(np.array([[0.0, 5.0], [2.0, 5.0]]), np.ones(2), True)[1].tolist()
        [1.0, 1.0]
    """
    total, width = float(weights.sum()), rows.shape[1]
    sparse = hasattr(rows, "multiply")
    first, second = np.zeros(width), np.zeros(width)
    shift = np.zeros(width) if sparse else np.asarray(rows[0], dtype=np.float64)  # squares of large numbers cancel
    for start in range(0, rows.shape[0], CHUNK):
        part, share = rows[start : start + CHUNK], weights[start : start + CHUNK] / total
        part = part if sparse else part - shift
        first += part.T @ share
        second += (part.multiply(part) if sparse else part * part).T @ share
    spread = np.sqrt(np.maximum(second - first**2, 0.0))
    constant = spread <= 1e-12 * np.maximum(np.abs(first + shift), 1e-300)
    scale = np.where(constant, 1.0, spread) if standardise else np.ones(width)
    return (np.zeros(width) if sparse else first + shift), scale


def typical_distance(rows: Array, neighbor: int = 3) -> float:
    """Median distance of a row to its third nearest neighbour; 1 where all rows are equal."""
    if len(rows) < 2:
        return 1.0
    squared = all_distances(rows)
    np.fill_diagonal(squared, np.inf)
    place = min(neighbor, len(rows) - 1) - 1
    near = np.partition(squared, place, axis=1)[:, place]
    value = float(np.sqrt(np.median(near)))
    if value > 0:
        return value
    positive = near[near > 0]
    return float(np.sqrt(np.median(positive))) if len(positive) else 1.0
