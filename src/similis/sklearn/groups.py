"""Rows in groups of one class each: the order that makes positives contiguous blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from similis.sklearn.matrix import Array

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """Rows sorted by class: ``starts[c]`` to ``starts[c + 1]`` are the rows of class c.

    Objectives read positives as blocks on the diagonal of a distance matrix, so that no mask of the size of
    the matrix is needed. ``weights`` (n,) count rows; ``order`` (n,) leads from sorted rows to the given ones.
    """

    starts: Whole
    weights: Array
    order: Whole
    targets: Whole | None = None  # (n, k) fixed neighbours of the own class, -1 where there are fewer

    def __len__(self) -> int:
        return len(self.weights)

    def blocks(self) -> Iterator[slice]:
        """The rows of each class."""
        for first, last in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield slice(int(first), int(last))


def grouped(labels: Whole, weights: Array | None = None) -> Groups:
    """Groups of integer labels (n,).

    Example:
        >>> made = grouped(np.array([1, 0, 1]))
        >>> made.order.tolist(), [(b.start, b.stop) for b in made.blocks()]
        ([1, 0, 2], [(0, 1), (1, 3)])
    """
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    starts = np.concatenate([[0], cuts, [len(labels)]]).astype(np.int64)
    counted = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=np.float64)
    return Groups(starts, counted[order], order)


def nearest_of_class(distances: Array, groups: Groups, neighbors: int) -> Whole:
    """Column numbers (n, k) of the nearest rows of the own class, self left out; -1 where a class is too small.

    Args:
        distances: (n, n) in the order of ``groups``.
        groups: classes of the rows.
        neighbors: k.
    """
    found = np.full((len(groups), neighbors), -1, dtype=np.int64)
    for block in groups.blocks():
        own = distances[block, block].copy()
        np.fill_diagonal(own, np.inf)
        number = min(neighbors, len(own) - 1)
        if number > 0:
            found[block, :number] = np.argsort(own, axis=1, kind="stable")[:, :number] + block.start
    return found
