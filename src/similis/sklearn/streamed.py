"""The log form of NCA in row blocks: three matrix products for each block, and memory linear in the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from similis.sklearn.groups import Groups
from similis.sklearn.matrix import Array
from similis.sklearn.neighbours import nca_log
from similis.sklearn.problem import Labelled

ENTRIES = 250_000  # of a block, 2 MB: it stays in the cache between the products
LEAST = -100.0  # e^-100 of the largest is nothing in double precision; smaller ones would be slow subnormal numbers


@dataclass(frozen=True)
class Neighbourhood:
    """:func:`similis.sklearn.neighbours.nca_log` as a problem; rows (n, D) stand in the order of ``groups``,
    whose weights are above 0.

    Probabilities are never written out: rows of exponentials e and their sums s suffice, because
    :math:`P Z = s^{-1} (e Z)` and :math:`P^T Z = e^T (s^{-1} Z)`. A column of ones beside Z yields the sums with the
    same products; a column of squared norms makes the exponents one product.
    """

    rows: Any
    groups: Groups

    def of_map(self, components: Array) -> tuple[float, Array]:
        """Mean value and its gradient (r, D) at G."""
        z = np.ascontiguousarray(self.rows @ components.T)
        value, pulled = streamed_nca(z, self.groups)
        share = 1.0 / float(self.groups.weights.sum())
        return share * value, 2.0 * share * (self.rows.T @ pulled).T

    def of_metric(self, metric: Array) -> tuple[float, Array]:
        """Mean value and its gradient (D, D) at A, from the plain form."""
        return Labelled(self.rows, self.groups, nca_log).of_metric(metric)


def streamed_nca(z: Array, groups: Groups) -> tuple[float, Array]:
    """Value of the log form at rows z (n, r), and half its gradient by z.

    Example:
        >>> from similis.sklearn.groups import grouped
        >>> round(streamed_nca(np.array([[0.0], [0.0], [1.0]]), grouped(np.array([0, 0, 1])))[0], 6)
        0.626523
    """
    norms = np.einsum("nr,nr->n", z, z)
    ones = np.ones((len(z), 1))
    tables = Tables(
        left=np.hstack([2.0 * z, ones]),
        right=np.hstack([z, (np.log(groups.weights) - norms)[:, None]]),
        extended=np.hstack([z, ones]),
        weights=groups.weights,
        drawn=np.zeros((len(z), z.shape[1] + 1)),
    )
    value = 0.0
    size = max(1, ENTRIES // len(z))
    for own in groups.blocks():
        if own.stop - own.start < 2:
            continue  # nobody of its class: no anchor, though a neighbour of others
        for first in range(own.start, own.stop, size):
            value += add_block(tables, slice(first, min(first + size, own.stop)), own)
    return value, tables.drawn[:, -1:] * z - tables.drawn[:, :-1]


class Tables(NamedTuple):
    """What the blocks share: ``left @ right.T`` are the exponents, ``extended`` is (z, 1).

    Row i of ``drawn`` gathers the sum over j of (w_ij + w_ji) (z_j, 1), w the derivative by a squared distance.
    """

    left: Array
    right: Array
    extended: Array
    weights: Array
    drawn: Array


def add_block(tables: Tables, block: slice, own: slice) -> float:
    """Add what the anchors of one block draw, all of them of the class ``own``; returns their value."""
    exponents = tables.left[block] @ tables.right.T
    rows = np.arange(block.stop - block.start)
    exponents[rows, rows + block.start] = -np.inf
    near = exponents[:, own].copy()
    return add_choices(tables, near, block, own, 1.0) + add_choices(tables, exponents, block, slice(None), -1.0)


def add_choices(tables: Tables, exponents: Array, block: slice, columns: slice, sign: float) -> float:
    """Add sign times the probabilities of neighbours among some columns; returns minus sign times their log sums."""
    top = exponents.max(1)
    exponents -= top[:, None]
    np.maximum(exponents, LEAST, out=exponents)
    np.exp(exponents, out=exponents)
    sums = exponents @ tables.extended[columns]
    counts = tables.weights[block]
    share = (sign * counts / sums[:, -1])[:, None]
    tables.drawn[block] += share * sums
    tables.drawn[columns] += exponents.T @ (share * tables.extended[block])
    return -sign * float((counts * (np.log(sums[:, -1]) + top)).sum())
