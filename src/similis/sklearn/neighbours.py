"""Objectives of random neighbours: NCA in two forms, and MCML. Each returns a value and the weight of every pair.

A weight is the derivative by that pair's squared distance; ``problem`` turns weights into gradients.
"""

from __future__ import annotations

import numpy as np

from similis.sklearn.groups import Groups
from similis.sklearn.matrix import Array


def choices(distances: Array, weights: Array) -> tuple[Array, Array]:
    r"""Probability of each neighbour, :math:`p_{ij} \propto w_j e^{-d_{ij}}`, self left out, and log of the sum.

    Shapes: distances (n, n), weights (n,) -> (n, n), (n,). A row alone has no neighbour: p is 0, the sum -inf.
    """
    p = -distances
    np.fill_diagonal(p, -np.inf)
    top = p.max(1, initial=-np.inf)
    top[~np.isfinite(top)] = 0.0
    p -= top[:, None]
    np.exp(p, out=p)
    p *= weights
    sums = p.sum(1)
    with np.errstate(divide="ignore"):
        logs = np.log(sums) + top
    p /= np.where(sums > 0, sums, 1.0)[:, None]
    return p, logs


def nca_log(distances: Array, groups: Groups) -> tuple[float, Array]:
    r"""Minus the log probability that a random neighbour has the own class.

    .. math::
        f = -\sum_i w_i \log \sum_{j \in P_i} p_{ij}, \qquad
        \frac{\partial f}{\partial d_{ij}} = w_i (q_{ij} - p_{ij}), \qquad q_{ij} = [j \in P_i]\, p_{ij} / p_i

    Rows without another row of their class do not count as anchors.

    Args:
        distances: squared distances (n, n) in the order of ``groups``.
        groups: classes and weights of the rows.

    Reference: Goldberger, Roweis, Hinton, Salakhutdinov, NIPS 2004.

    Example:
        >>> from similis.sklearn.groups import grouped
        >>> d = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
        >>> round(nca_log(d, grouped(np.array([0, 0, 1])))[0], 6)
        0.626523
    """
    p, every = choices(distances, groups.weights)
    pair = -p
    value = 0.0
    for block in groups.blocks():
        q, own = choices(distances[block, block], groups.weights[block])
        counts = np.where(np.isfinite(own), groups.weights[block], 0.0)
        pair[block] *= counts[:, None]
        pair[block, block] += counts[:, None] * q
        valid = counts > 0
        value += float((counts * (every[block] - np.where(valid, own, 0.0)))[valid].sum())
    return value, pair


def nca_sum(distances: Array, groups: Groups) -> tuple[float, Array]:
    r"""Minus the expected number of rows whose random neighbour has the own class.

    .. math::
        f = -\sum_i w_i p_i, \quad p_i = \sum_{j \in P_i} p_{ij}, \qquad
        \frac{\partial f}{\partial d_{ij}} = w_i (p_{ij} [j \in P_i] - p_i p_{ij})

    Args:
        distances: squared distances (n, n) in the order of ``groups``.
        groups: classes and weights of the rows.

    Reference: Goldberger, Roweis, Hinton, Salakhutdinov, NIPS 2004.

    Example:
        >>> from similis.sklearn.groups import grouped
        >>> d = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
        >>> round(-nca_sum(d, grouped(np.array([0, 0, 1])))[0], 6)
        1.462117
    """
    p, _ = choices(distances, groups.weights)
    value = 0.0
    correct = np.zeros(len(p))
    for block in groups.blocks():
        correct[block] = p[block, block].sum(1)
    value = -float((groups.weights * correct).sum())
    pair = p * (-groups.weights * correct)[:, None]
    for block in groups.blocks():
        pair[block, block] += groups.weights[block, None] * p[block, block]
    return value, pair


def mcml(distances: Array, groups: Groups) -> tuple[float, Array]:
    r"""Divergence of the random neighbour from the ideal one, who is uniform on the own class; convex in A.

    .. math::
        f = \sum_i w_i \mathrm{KL}(p^0_i \,\|\, p_i), \quad p^0_{ij} \propto w_j [j \in P_i], \qquad
        \frac{\partial f}{\partial d_{ij}} = w_i (p^0_{ij} - p_{ij})

    Rows without another row of their class do not count as anchors.

    Args:
        distances: squared distances (n, n) in the order of ``groups``.
        groups: classes and weights of the rows.

    Reference: Globerson, Roweis: Metric Learning by Collapsing Classes, NIPS 2005.

    Example:
        >>> from similis.sklearn.groups import grouped
        >>> d = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
        >>> round(mcml(d, grouped(np.array([0, 0, 1])))[0], 6)
        0.626523
    """
    p, every = choices(distances, groups.weights)
    pair = -p
    value = 0.0
    for block in groups.blocks():
        own = groups.weights[block]
        ideal = np.broadcast_to(own, (len(own), len(own))).copy()
        np.fill_diagonal(ideal, 0.0)
        total = ideal.sum(1)
        valid = total > 0
        ideal /= np.where(valid, total, 1.0)[:, None]
        counts = np.where(valid, own, 0.0)
        pair[block] *= counts[:, None]
        pair[block, block] += counts[:, None] * ideal
        each = (ideal * distances[block, block]).sum(1) + every[block] - np.log(np.where(valid, total, 1.0))
        value += float((counts[valid] * each[valid]).sum())
    return value, pair
