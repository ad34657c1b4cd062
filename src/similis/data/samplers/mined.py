"""Batches from offline mining: positive pairs with hard negatives of both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from similis.data.random_draws import counter_generator
from similis.data.sampling import SAMPLING, Ints, as_batches, number_of_batches, register_sampler, shuffle
from similis.labels import encode_labels
from similis.values import UserError

Floats = NDArray[np.float64]
GROUP = 4  # an image, its positive, a negative of each


@register_sampler
def mined(
    labels: Any,
    *,
    positives: Tensor | None,
    negatives: Tensor,
    batch_size: int,
    seed: int,
    epoch: int,
    nearest: int = 0,
) -> Tensor:
    """Quadruples: an image, its mined positive, and for each of the two a negative from its list.

    Without positives and with ``nearest`` 1 these are the batches of lifted structure: random positive pairs, and
    the nearest negative of either end. A longer list is sampled evenly: the single hardest is often a wrong label.
    An image may be in a batch twice, as the negative of several others.

    Args:
        labels: (N,) class ids, a tensor or a list of any hashable values.
        positives: (N,) row of a positive, -1 for none; None draws one for each image, anew in every epoch.
        negatives: (N, K) rows of negatives, hardest first, -1 for none.
        batch_size: B, a multiple of 4.
        seed: of the run.
        epoch: number of the epoch.
        nearest: how many of the list are sampled from; 0 for all.

    Shapes: (N,), (N,), (N, K) -> (floor(N / B), B).

    When to use: with any loss that compares samples, when random negatives have become too easy.

    Reference: Song, Xiang, Jegelka, Savarese: Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016.

    Example:
        >>> import torch
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> found = mined(labels, positives=torch.tensor([1, 0, 3, 2]), negatives=torch.tensor([[2], [3], [0], [1]]),
        ...               batch_size=4, seed=0, epoch=0)
        >>> labels[found[0]].bincount().tolist()
        [2, 2]
    """
    batches = mined_batches(len(labels), batch_size)
    generator = counter_generator(seed, SAMPLING, epoch)
    lists = negatives.numpy()[:, : nearest or None]
    own = encode_labels(labels).numpy()
    ends = draw_positives(own, generator.random(len(own))) if positives is None else positives.numpy()
    useful = np.flatnonzero((ends >= 0) & (lists[:, 0] >= 0))
    useful = useful[lists[ends[useful], 0] >= 0]
    if not len(useful):
        raise UserError("no image has both a positive and a negative; mine again, or train with balanced batches")
    wanted = batches * batch_size // GROUP
    rounds = [shuffle(useful, generator) for _ in range(-(-wanted // len(useful)))]
    anchors = np.concatenate(rounds)[:wanted]
    rows = np.stack(
        [
            anchors,
            ends[anchors],
            draw_entries(lists, anchors, generator),
            draw_entries(lists, ends[anchors], generator),
        ],
        axis=1,
    )
    return as_batches(rows.reshape(batches, batch_size))


def mined_batches(rows: int, batch_size: int) -> int:
    """floor(N / B) batches of whole quadruples; known before anything is mined."""
    if batch_size % GROUP:
        raise UserError(
            f"batch_size must be a multiple of {GROUP}, an image, its positive and two negatives; given {batch_size}"
        )
    return number_of_batches(rows, batch_size)


def draw_positives(labels: Ints, uniform: Floats) -> Ints:
    """For each row another of its class, evenly among them; -1 for a class of one.

    Example:
        >>> draw_positives(np.array([5, 7, 5, 5, 9, 7]), np.array([0.0, 0.0, 0.9, 0.4, 0.5, 0.9])).tolist()
        [2, 5, 3, 0, -1, 1]
    """
    order = np.argsort(labels, kind="stable")
    _, place, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    first, size = (np.cumsum(sizes) - sizes)[place], sizes[place]
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels))
    rank -= first
    other = np.minimum((uniform * (size - 1)).astype(np.int64), size - 2)
    other += other >= rank  # the row itself is left out
    return np.asarray(np.where(size > 1, order[first + np.maximum(other, 0) % size], -1))


def draw_entries(lists: np.ndarray, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """One entry of each row's list, evenly among those that are there (they stand first)."""
    lengths = (lists[rows] >= 0).sum(axis=1)
    places = np.minimum((generator.random(len(rows)) * lengths).astype(np.int64), lengths - 1)
    return np.asarray(lists[rows, places])
