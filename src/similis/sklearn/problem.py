"""What a solver minimises: an objective of squared distances as a function of the map G, or of the matrix A."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from similis.sklearn.groups import Groups
from similis.sklearn.margins import pair_hinges, relative_hinges
from similis.sklearn.matrix import Array, Penalty, all_distances, factor, penalised

OfDistances = Callable[[Array, Groups], tuple[float, Array]]


class Problem(Protocol):
    """A value with its gradient, by the map G (r, D) or by the matrix A (D, D)."""

    def of_map(self, components: Array) -> tuple[float, Array]:
        """Value and gradient (r, D) at G."""
        ...

    def of_metric(self, metric: Array) -> tuple[float, Array]:
        """Value and gradient (D, D) at A."""
        ...


@dataclass(frozen=True)
class Labelled:
    """An objective over all pairs of rows; rows (n, D) may be sparse and stand in the order of ``groups``."""

    rows: Any
    groups: Groups
    objective: OfDistances

    @property
    def share(self) -> float:
        """One over the total weight: solvers see means, so that their tolerances fit every size."""
        return 1.0 / float(self.groups.weights.sum())

    def of_map(self, components: Array) -> tuple[float, Array]:
        """Value and gradient: df/dZ is twice the weighted Laplacian of the pairs times Z, and Z = X G^T."""
        z = self.rows @ components.T
        value, pair = self.objective(all_distances(z), self.groups)
        return self.share * value, 2.0 * self.share * (self.rows.T @ pulled(pair, z)).T

    def of_metric(self, metric: Array) -> tuple[float, Array]:
        """Value and gradient, the sum of w_ij (x_i - x_j)(x_i - x_j)^T."""
        z = self.rows @ factor(metric).T
        value, pair = self.objective(all_distances(z), self.groups)
        gradient = self.share * np.asarray(self.rows.T @ pulled(pair, dense(self.rows)))
        return self.share * value, (gradient + gradient.T) / 2.0


@dataclass(frozen=True)
class Paired:
    """Constraints on given pairs, by their differences (n, D) and whether each pair is similar."""

    differences: Array
    similar: NDArray[np.bool_]
    weights: Array
    upper: float
    lower: float
    smooth: float = 0.0

    def of_map(self, components: Array) -> tuple[float, Array]:
        """Value and gradient of the mean hinge."""
        z = self.differences @ components.T
        value, slope = self._hinges(np.einsum("nr,nr->n", z, z))
        return value, 2.0 * (slope[:, None] * z).T @ self.differences

    def of_metric(self, metric: Array) -> tuple[float, Array]:
        """Value and gradient of the mean hinge."""
        value, slope = self._hinges(quadratic(self.differences, metric))
        return value, (slope[:, None] * self.differences).T @ self.differences

    def _hinges(self, distances: Array) -> tuple[float, Array]:
        value, slope = pair_hinges(
            distances, self.similar, upper=self.upper, lower=self.lower, smooth=self.smooth
        )  # fmt: skip
        shares = self.weights / self.weights.sum()
        return float((shares * value).sum()), shares * slope


@dataclass(frozen=True)
class Related:
    """Relative constraints on given triplets, by the differences (n, D) to the near and to the far row."""

    near: Array
    far: Array
    weights: Array
    margin: float
    smooth: float = 0.0

    def of_map(self, components: Array) -> tuple[float, Array]:
        """Value and gradient of the mean hinge."""
        near, far = self.near @ components.T, self.far @ components.T
        value, slope = self._hinges(np.einsum("nr,nr->n", near, near), np.einsum("nr,nr->n", far, far))
        gradient = (slope[:, None] * near).T @ self.near - (slope[:, None] * far).T @ self.far
        return value, 2.0 * gradient

    def of_metric(self, metric: Array) -> tuple[float, Array]:
        """Value and gradient of the mean hinge."""
        value, slope = self._hinges(quadratic(self.near, metric), quadratic(self.far, metric))
        return value, (slope[:, None] * self.near).T @ self.near - (slope[:, None] * self.far).T @ self.far

    def _hinges(self, near: Array, far: Array) -> tuple[float, Array]:
        value, slope = relative_hinges(near, far, margin=self.margin, smooth=self.smooth)
        shares = self.weights / self.weights.sum()
        return float((shares * value).sum()), shares * slope


def pulled(pair: Array, z: Array) -> Array:
    """The Laplacian of the weights W + W^T times Z: row i is the sum of (w_ij + w_ji)(z_i - z_j)."""
    degree = pair.sum(1) + pair.sum(0)
    return np.asarray(degree[:, None] * z - pair @ z - pair.T @ z)


def quadratic(differences: Array, metric: Array) -> Array:
    """d^T A d of each row."""
    return np.asarray(np.einsum("nd,nd->n", differences @ metric, differences))


def dense(rows: Any) -> Array:
    """A sparse table as an array."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def with_penalty(problem: Problem, penalty: Penalty, components: Array) -> tuple[float, Array]:
    """Value and gradient by the map, regulariser included; the gradient by G is 2 G times that by A."""
    value, gradient = problem.of_map(components)
    if not penalty.weight:
        return value, gradient
    extra, by_metric = penalised(penalty, components.T @ components)
    return value + extra, gradient + 2.0 * components @ by_metric


def with_penalty_of_metric(problem: Problem, penalty: Penalty, metric: Array) -> tuple[float, Array]:
    """Value and gradient by the matrix, regulariser included."""
    value, gradient = problem.of_metric(metric)
    if not penalty.weight:
        return value, gradient
    extra, by_metric = penalised(penalty, metric)
    return value + extra, gradient + by_metric
