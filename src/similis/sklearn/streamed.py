"""The log form of NCA in row blocks: three matrix products for each block, and memory linear in the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from similis.sklearn.groups import Groups
from similis.sklearn.matrix import Array
from similis.sklearn.neighbours import nca_log
from similis.sklearn.problem import Labelled

ENTRIES = 250_000  # of a block, 2 MB: it stays in the cache between the products


@dataclass(frozen=True)
class Neighbourhood:
    """:func:`similis.sklearn.neighbours.nca_log` as a problem; rows (n, D) stand in the order of ``groups``.

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
    with np.errstate(divide="ignore"):
        logs = np.log(groups.weights)
    norms = np.einsum("nr,nr->n", z, z)
    ones = np.ones((len(z), 1))
    left = np.hstack([2.0 * z, ones])
    right = np.hstack([z, (logs - norms)[:, None]])
    extended = np.hstack([z, ones])
    drawn = np.zeros_like(extended)  # row i: sum over j of w_ij + w_ji times (z_j, 1)
    value = 0.0
    for own in groups.blocks():
        if own.stop - own.start < 2:
            continue  # nobody of its class: no anchor, though a neighbour of others
        size = max(1, ENTRIES // len(z))
        for first in range(own.start, own.stop, size):
            block = slice(first, min(first + size, own.stop))
            value += _block(block, own, left, right, extended, groups.weights, drawn)
    return value, drawn[:, -1:] * z - drawn[:, :-1]


def _block(
    block: slice, own: slice, left: Array, right: Array, extended: Array, weights: Array, drawn: Array
) -> float:
    """Add the share of the anchors of one block, all of the class ``own``, to ``drawn``; returns their value."""
    exponents = left[block] @ right.T
    rows = np.arange(block.stop - block.start)
    exponents[rows, rows + block.start] = -np.inf
    near = exponents[:, own].copy()
    counts = weights[block]
    tops = [part.max(1) for part in (near, exponents)]
    tops = [np.where(np.isfinite(top), top, 0.0) for top in tops]
    value = 0.0
    for part, top, columns, sign in ((near, tops[0], own, 1.0), (exponents, tops[1], slice(None), -1.0)):
        part -= top[:, None]
        np.exp(part, out=part)
        sums = part @ extended[columns]
        total = sums[:, -1]
        share = sign * counts / np.where(total > 0, total, 1.0)
        drawn[block] += share[:, None] * sums
        drawn[columns] += part.T @ (share[:, None] * extended[block])
        value -= sign * float((counts * (np.log(np.where(total > 0, total, 1.0)) + top)).sum())
    return value
