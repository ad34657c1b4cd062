"""Objectives of random neighbours: NCA in two forms, and MCML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from similis.registry import unknown
from similis.sklearn.problem import Array, Evaluation, Groups
from similis.values import UserError

BLOCK_ROWS = 96  # anchors at a time: their exponents stay in the cache between the products
LEAST_EXPONENT = -100.0  # e^-100 of the largest is nothing in double precision; smaller ones would be slow subnormals


def nca(_rows: Any, groups: Groups, *, form: str = "log") -> Evaluation:
    r"""Neighbourhood components analysis: a random neighbour should have the class of its anchor.

    .. math::
        p_{ij} \propto w_j e^{-d_{ij}}, \quad p_i = \sum_{j \in P_i} p_{ij}, \qquad
        \text{log: } -\sum_i w_i \log p_i, \qquad \text{sum: } -\sum_i w_i p_i

    Reference: Goldberger, Roweis, Hinton, Salakhutdinov, NIPS 2004.

    Example:
        >>> from similis.sklearn.problem import group_rows
        >>> z = np.array([[0.0], [0.0], [1.0]])
        >>> round(nca(z, group_rows(np.array([0, 0, 1])))(z, z)[0], 6)
        0.626523
    """
    if form not in ("log", "sum"):
        raise UserError(unknown("form", form, ["log", "sum"]))
    return lambda z, y: random_neighbours(z, y, groups, form)


def mcml(_rows: Any, groups: Groups) -> Evaluation:
    r"""Maximally collapsing metric learning: a random neighbour should be uniform on its class; convex in A.

    .. math::
        \sum_i w_i \mathrm{KL}(p^0_i \,\|\, p_i), \qquad p^0_{ij} \propto w_j [j \in P_i]

    Reference: Globerson, Roweis: Metric Learning by Collapsing Classes, NIPS 2005.
    """
    return lambda z, y: random_neighbours(z, y, groups, "collapse")


def random_neighbours(z: Array, y: Array, groups: Groups, form: str) -> tuple[float, Array]:
    """NCA (``log``, ``sum``) or MCML (``collapse``) in blocks of anchors, with memory linear in the rows.

    Probabilities are never written out: rows of exponentials e and their sums s suffice, because P Y = (e Y) / s and
    P^T Y = e^T (Y / s). A column of ones beside Y yields the sums with the same products; a column of squared norms
    beside Z makes the exponents one product.
    """
    ones = np.ones((len(z), 1))
    logs = np.log(groups.weights)
    left, right = np.hstack([2.0 * z, ones]), np.hstack([z, (logs - np.einsum("nr,nr->n", z, z))[:, None]])
    extended = np.hstack([y, ones])
    gathered = np.zeros_like(extended)  # row i: the sum over j of (w_ij + w_ji) (y_j, 1)
    value = 0.0
    for block, own in anchor_blocks(groups):
        exponents = left[block] @ right.T
        anchors = np.arange(block.stop - block.start)
        exponents[anchors, anchors + block.start] = -np.inf
        if form == "collapse":
            near, near_top = uniform_choices(exponents[:, own] - logs[own], groups.weights[own])
        else:
            near, near_top = exponentials(exponents[:, own].copy())
        every, every_top = exponentials(exponents)
        near_sums, every_sums = near @ extended[own], every @ extended
        gap = every_top + np.log(every_sums[:, -1]) - near_top - np.log(near_sums[:, -1])  # -log p_i of NCA
        counts = groups.weights[block] * (np.exp(-gap) if form == "sum" else 1.0)
        value += float((-counts if form == "sum" else counts * gap).sum())
        near_share, every_share = ((counts / sums[:, -1])[:, None] for sums in (near_sums, every_sums))
        gathered[block] += near_share * near_sums - every_share * every_sums
        gathered[own] += near.T @ (near_share * extended[block])
        gathered -= every.T @ (every_share * extended[block])
    return value, gathered[:, -1:] * y - gathered[:, :-1]


def anchor_blocks(groups: Groups) -> Iterator[tuple[slice, slice]]:
    """Anchors of one class, a block at a time, and all rows of that class; a row alone in its class is no anchor."""
    for own in groups.blocks():
        if own.stop - own.start > 1:
            for first in range(own.start, own.stop, BLOCK_ROWS):
                yield slice(first, min(first + BLOCK_ROWS, own.stop)), own


def exponentials(exponents: Array) -> tuple[Array, Array]:
    """Exponentials of each row relative to its largest, written in place, and the largest exponents."""
    top = exponents.max(1)
    exponents -= top[:, None]
    np.maximum(exponents, LEAST_EXPONENT, out=exponents)
    return np.exp(exponents, out=exponents), top


def uniform_choices(scores: Array, weights: Array) -> tuple[Array, Array]:
    """Weights of the class for each anchor, 0 where the score is -inf (the anchor itself), and their mean score."""
    near = np.where(np.isneginf(scores), 0.0, weights)
    return near, (near * np.nan_to_num(scores, neginf=0.0)).sum(1) / near.sum(1)
