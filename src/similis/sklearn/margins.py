"""Objectives with hinges: LMNN, and constraints on pairs and triplets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similis.sklearn.problem import (
    Array,
    Evaluation,
    Groups,
    IntArray,
    Penalty,
    Problem,
    apply_laplacian,
    squared_distances,
    to_dense,
)
from similis.values import UserError


def lmnn(rows: Any, groups: Groups, *, mu: float = 0.5, neighbors: int = 3, smooth: float = 1e-3) -> Evaluation:
    r"""Large margin nearest neighbours: targets are near, rows of other classes a margin farther; convex in A.

    .. math::
        (1 - \mu) \sum_{i, j \in T_i} w_i d_{ij} + \mu \sum_{i, j \in T_i} \sum_{l : y_l \ne y_i} w_i w_l
        [1 + d_{ij} - d_{il}]_+

    Targets T_i are the nearest ``neighbors`` of the class before learning, which makes the objective convex. On
    minibatches they are the nearest within the batch. ``smooth`` is the width of the hinge's rounded corner.

    Reference: Weinberger, Saul: Distance Metric Learning for Large Margin Nearest Neighbor Classification, JMLR 2009.

    Example:
        >>> from similis.sklearn.problem import group_rows
        >>> z = np.array([[0.0], [2.0], [1.0]])
        >>> lmnn(z, group_rows(np.array([0, 0, 1])), neighbors=1, smooth=0.0)(z, z)[0]
        8.0
    """
    if neighbors < 1 or not 0 <= mu <= 1:
        raise UserError(f"lmnn got neighbors={neighbors}, mu={mu}; neighbors is 1 or more, mu lies in [0, 1]")
    targets, weights = target_neighbours(to_dense(rows), groups, neighbors), groups.weights

    def evaluate(z: Array, y: Array) -> tuple[float, Array]:
        distances = squared_distances(z)
        near = np.take_along_axis(distances, targets, axis=1)
        limits = np.where(targets >= 0, 1.0 + near, -np.inf)
        pulls = (1 - mu) * np.where(targets >= 0, weights[:, None], 0.0)
        for block in groups.blocks():
            distances[block, block] = np.inf
        row, column = np.nonzero(distances < limits.max(1)[:, None])  # few pairs are active: the rest stays untouched
        push, slope = hinge(limits[row] - distances[row, column][:, None], smooth)
        both = mu * (weights[row] * weights[column])[:, None]
        value = float((pulls * near).sum() + (both * push).sum())
        pushes = both * slope
        pulls += np.stack([np.bincount(row, one, minlength=len(z)) for one in pushes.T], axis=1)
        pair = np.zeros_like(distances)
        pair[row, column] = -pushes.sum(1)
        np.add.at(pair, (np.arange(len(z))[:, None], targets), pulls)
        return value, apply_laplacian(pair + pair.T, y)

    return evaluate


def target_neighbours(rows: Array, groups: Groups, neighbors: int) -> IntArray:
    """Numbers (n, k) of the nearest rows of the own class, self left out; -1 where a class is too small."""
    found = np.full((len(rows), neighbors), -1, dtype=np.int64)
    for block in groups.blocks():
        own = squared_distances(rows[block])
        np.fill_diagonal(own, np.inf)
        number = min(neighbors, len(own) - 1)
        found[block, :number] = np.argsort(own, axis=1, kind="stable")[:, :number] + block.start
    return found


def constraints(
    _rows: Any, groups: Groups, *, upper: float = 1.0, lower: float = 4.0, margin: float = 1.0, smooth: float = 1e-3
) -> Evaluation:
    """Pairs of one class nearer than ``upper``, others farther than ``lower`` (:func:`pair_hinges`); convex in A.

    Every unordered pair counts once. ``margin`` is for triplets, see :func:`tuple_problem`.

    Reference: Xing, Ng, Jordan, Russell, NIPS 2002; Schultz, Joachims, NIPS 2003.
    """
    del margin
    similar = np.zeros((len(groups.order), len(groups.order)), dtype=bool)
    for block in groups.blocks():
        similar[block, block] = True
    both = np.outer(groups.weights, groups.weights)
    np.fill_diagonal(both, 0.0)

    def evaluate(z: Array, y: Array) -> tuple[float, Array]:
        value, slope = pair_hinges(squared_distances(z), similar, upper, lower, smooth)
        return 0.5 * float(np.vdot(both, value)), apply_laplacian(both * slope, y)

    return evaluate


def tuple_problem(tuples: Array, similar: Any, weights: Array, options: Mapping[str, Any], penalty: Penalty) -> Problem:
    r"""Constraints on given pairs (n, 2, D) with ``similar`` (n,), or on triplets (n, 3, D).

    Pairs have the hinges of :func:`pair_hinges`; a triplet (i, j, k) has :math:`[d_{ij} - d_{ik} + m]_+`.
    The rows of the problem are differences, each a pair of its own, so that the Laplacian is diagonal.
    """
    first = tuples[:, 0] - tuples[:, 1]
    rows = first if similar is not None else np.vstack([first, tuples[:, 0] - tuples[:, 2]])
    smooth = options["smooth"]

    def evaluate(z: Array, y: Array) -> tuple[float, Array]:
        distances = np.einsum("nr,nr->n", z, z)
        if similar is not None:
            value, slope = pair_hinges(distances, similar, options["upper"], options["lower"], smooth)
            slope = weights * slope
        else:
            near, far = np.split(distances, 2)
            value, slope = hinge(near - far + options["margin"], smooth)
            slope = np.concatenate([weights * slope, -weights * slope])
        return float((weights * value).sum()), slope[:, None] * y

    return Problem(rows, evaluate, 1.0 / float(weights.sum()), penalty)


def pair_hinges(
    distances: Array, similar: NDArray[np.bool_], upper: float, lower: float, smooth: float = 0.0
) -> tuple[Array, Array]:
    """[d - u]_+ of similar and [l - d]_+ of other pairs, by squared distance, and the derivatives by d."""
    value, slope = hinge(np.where(similar, distances - upper, lower - distances), smooth)
    return value, np.where(similar, slope, -slope)


def hinge(excess: Array, smooth: float = 0.0) -> tuple[Array, Array]:
    r""":math:`[z]_+` and its derivative; with a width s the corner is a parabola, lower by at most s / 2.

    .. math::
        h(z) = 0,\; z \le 0 \qquad z^2 / (2 s),\; 0 < z < s \qquad z - s / 2,\; z \ge s

    Example:
        >>> [part.tolist() for part in hinge(np.array([-1.0, 0.5, 2.0]), smooth=1.0)]
        [[0.0, 0.125, 1.5], [0.0, 0.5, 1.0]]
    """
    above = np.maximum(excess, 0.0)
    if smooth <= 0:
        return above, (excess > 0).astype(excess.dtype)
    slope = np.minimum(above / smooth, 1.0)
    return slope * (above - 0.5 * smooth * slope), slope
