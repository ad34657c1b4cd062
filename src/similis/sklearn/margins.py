"""Objectives with hinges: LMNN, and constraints on pairs and on triplets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from similis.sklearn.groups import Groups
from similis.sklearn.matrix import Array
from similis.values import UserError


def hinge(excess: Array, smooth: float = 0.0) -> tuple[Array, Array]:
    r""":math:`[z]_+` and its derivative; with a width the corner is a parabola, which is lower by at most width / 2.

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


def lmnn(distances: Array, groups: Groups, *, mu: float = 0.5, smooth: float = 0.0) -> tuple[float, Array]:
    r"""Large margin nearest neighbours: targets are near, rows of other classes a margin farther; convex in A.

    .. math::
        f = (1 - \mu) \sum_{i, j \in T_i} w_i d_{ij}
            + \mu \sum_{i, j \in T_i} \sum_{l : y_l \ne y_i} w_i w_l [1 + d_{ij} - d_{il}]_+

    Targets T are fixed before the metric is learned (``groups.targets``), which is what makes f convex.

    Args:
        distances: squared distances (n, n) in the order of ``groups``.
        groups: classes, weights and targets of the rows.
        mu: share of the push.
        smooth: width of a rounded corner, 0 for the hinge itself.

    Reference: Weinberger, Saul: Distance Metric Learning for Large Margin Nearest Neighbor Classification, JMLR 2009.

    Example:
        >>> from dataclasses import replace
        >>> from similis.sklearn.groups import grouped
        >>> rows = replace(grouped(np.array([0, 0, 1])), targets=np.array([[1], [0], [-1]]))
        >>> lmnn(np.array([[0.0, 4.0, 1.0], [4.0, 0.0, 2.0], [1.0, 2.0, 0.0]]), rows)[0]
        7.5
    """
    pull, push, weights = lmnn_parts(distances, groups, mu, smooth)
    return (1 - mu) * pull + mu * push, weights


def lmnn_parts(distances: Array, groups: Groups, mu: float, smooth: float) -> tuple[float, float, Array]:
    """Pull, push and the weights of pairs of :func:`lmnn`."""
    if groups.targets is None:
        raise UserError("lmnn needs targets; build the groups with nearest_of_class")
    weights = np.zeros_like(distances)
    pull = push = 0.0
    foreign = np.ones(distances.shape, dtype=bool)
    for block in groups.blocks():
        foreign[block, block] = False
    for targets in groups.targets.T:
        anchors = np.flatnonzero(targets >= 0)
        near = distances[anchors, targets[anchors]]
        counted = groups.weights[anchors]
        pull += float((counted * near).sum())
        np.add.at(weights, (anchors, targets[anchors]), (1 - mu) * counted)
        limit = np.full(len(distances), -np.inf)
        limit[anchors] = 1.0 + near
        row, column = np.nonzero((distances < limit[:, None]) & foreign)  # few are active: the rest stays dense-free
        value, slope = hinge(limit[row] - distances[row, column], smooth)
        both = groups.weights[row] * groups.weights[column]
        push += float((both * value).sum())
        weights[row, column] -= mu * both * slope  # each pair stands here once
        drawn = np.bincount(row, both * slope, minlength=len(distances))
        np.add.at(weights, (anchors, targets[anchors]), mu * drawn[anchors])
    return pull, push, weights


def pair_hinges(
    distances: Array, similar: NDArray[np.bool_], *, upper: float = 1.0, lower: float = 4.0, smooth: float = 0.0
) -> tuple[Array, Array]:
    r"""Similar pairs nearer than u, dissimilar pairs farther than l: values and slopes of each pair.

    .. math::
        [d_A - u]_+ \text{ on similar}, \qquad [l - d_A]_+ \text{ on dissimilar pairs}

    Args:
        distances: squared distances (n,) of the pairs.
        similar: which pairs are similar, (n,).
        upper: u, in squared distance.
        lower: l, in squared distance.
        smooth: width of a rounded corner, 0 for the hinge itself.

    Example:
        >>> pair_hinges(np.array([2.0, 2.0]), np.array([True, False]))[0].tolist()
        [1.0, 2.0]
    """
    value, slope = hinge(np.where(similar, distances - upper, lower - distances), smooth)
    return value, np.where(similar, slope, -slope)


def relative_hinges(near: Array, far: Array, *, margin: float = 1.0, smooth: float = 0.0) -> tuple[Array, Array]:
    r"""Triplets: i is nearer to j than to k by a margin, :math:`[d_A(i, j) - d_A(i, k) + m]_+`; values and slopes.

    Args:
        near: squared distances (n,) that should be small.
        far: squared distances (n,) that should be large.
        margin: m, in squared distance.
        smooth: width of a rounded corner, 0 for the hinge itself.

    Example:
        >>> relative_hinges(np.array([2.0]), np.array([2.5]))[0].tolist()
        [0.5]
    """
    return hinge(near - far + margin, smooth)


def constraints(
    distances: Array, groups: Groups, *, upper: float = 1.0, lower: float = 4.0, smooth: float = 0.0
) -> tuple[float, Array]:
    """:func:`pair_hinges` on all pairs of a table with labels, each unordered pair once; convex in A.

    Args:
        distances: squared distances (n, n) in the order of ``groups``.
        groups: classes and weights of the rows.
        upper: u, in squared distance.
        lower: l, in squared distance.
        smooth: width of a rounded corner, 0 for the hinge itself.

    Example:
        >>> from similis.sklearn.groups import grouped
        >>> constraints(np.array([[0.0, 2.0], [2.0, 0.0]]), grouped(np.array([0, 1])))[0]
        2.0
    """
    similar = np.zeros(distances.shape, dtype=bool)
    for block in groups.blocks():
        similar[block, block] = True
    value, slope = pair_hinges(distances, similar, upper=upper, lower=lower, smooth=smooth)
    both = np.triu(np.outer(groups.weights, groups.weights), 1)
    return float((both * value).sum()), both * slope
