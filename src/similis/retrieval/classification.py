"""Classify by the nearest vectors of a labelled gallery, with "unknown" as an answer."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.search import search
from similis.retrieval.similarity import TILE
from similis.values import Neighbors, UserError

UNKNOWN = -1
VOTERS = 50
MOST = 1000  # voters: votes are compared in pairs, and those of farther rows are nothing
TEMPERATURE = 0.03  # of a vote, in cosines; chosen with the rule: results/classification.json
REFUSED = 0.05  # share of the known images that may be called unknown
ROUNDING = 1e-6  # by which the same cosine may differ between two products of float32


class Classified(NamedTuple):
    """Label of each query (Q,), -1 without neighbours, and its score (Q,): similarity of the label's nearest row."""

    labels: Tensor
    scores: Tensor


def classify_neighbors(near: Neighbors, labels: Tensor, sizes: Tensor | None = None) -> Classified:
    r"""The class with the most votes among the neighbours of each query, for the size of the class.

    A neighbour votes the more, the nearer it is, and the votes of a class are divided by its rows in the gallery:

    .. math:: \hat y(q) = \arg\max_c \frac{1}{n_c} \sum_{j \in N_k(q),\, y_j = c} e^{s_{qj} / 0.03}

    So a class that was enrolled with five photos can win against one with fifty. Of equal classes the one with the
    nearer row wins. With k = 1 the nearest row decides.

    Args:
        near: (Q, k) of a search in the gallery; -1 where there is no neighbour. The first 1,000 vote.
        labels: (N,) class of each gallery row, 0 or more.
        sizes: how many rows each class has, if that is known.

    Shapes: (Q, k), (N,) -> labels (Q,), scores (Q,); -1 and -inf for a query without neighbours.

    Example:
        >>> near = Neighbors(torch.tensor([[2, 0, 1]]), torch.tensor([[0.90, 0.89, 0.88]]))
        >>> classify_neighbors(near, torch.tensor([5, 5, 7])).labels.tolist()
        [7]
    """
    labels = labels.to(near.index.device)
    sizes = torch.bincount(labels) if sizes is None else sizes
    near = Neighbors(near.index[:, :MOST], near.similarity[:, :MOST])
    rows = max(1, TILE // max(1, near.index.shape[1] ** 2))
    pieces = zip(*(torch.split(each, rows) for each in near), strict=True)
    parts = [_vote(Neighbors(*piece), labels, sizes) for piece in pieces]
    return Classified(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _vote(near: Neighbors, labels: Tensor, sizes: Tensor) -> Classified:
    """The winner among neighbours in falling similarity."""
    there = near.index >= 0
    voter = torch.where(there, labels[near.index.clamp(min=0)], UNKNOWN)
    nearest = torch.where(there, near.similarity, -math.inf)[:, :1].double()
    vote = torch.where(there, ((near.similarity.double() - nearest) / TEMPERATURE).exp(), 0.0)
    agree = voter[:, :, None] == voter[:, None, :]  # (Q, k, k)
    votes = torch.where(agree, vote[:, None, :], 0.0).sum(dim=2) / sizes[voter.clamp(min=0)]
    winner = votes.masked_fill(~there, -math.inf).argmax(dim=1, keepdim=True)  # of equal ones the nearest
    return Classified(voter.gather(1, winner)[:, 0], near.similarity.gather(1, winner)[:, 0])


def unknown_threshold(vectors: Tensor, labels: Tensor, refuse: float = REFUSED, sample: int | None = None) -> float:
    r"""The similarity to the nearest gallery row below which a query is unknown, estimated within the gallery.

    Every row asks as a new image of its class would, without itself, and as one of another class, without its class:

    .. math:: s^+_i = \max_{j \ne i} \cos(x_i, x_j), \qquad s^-_i = \max_{y_j \ne y_i} \cos(x_i, x_j).

    The threshold is the largest number that at most the share ``refuse`` of the :math:`s^+` is below, or just above the
    largest :math:`s^-` if that is smaller: where classes are far apart, nothing is gained by refusing more. Rows whose
    class has no other row have no :math:`s^+`. If no class has two rows, this share of the :math:`s^-` reaches it.

    Args:
        vectors: (N, D) of the gallery.
        labels: (N,) with two classes or more.
        refuse: share of known images that may be called unknown, from 0 to 1.
        sample: how many rows ask; each still meets the whole gallery, so the cost is proportional to it. Rows are
            drawn with a fixed seed. None for all of them.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.1, 1.0]])
        >>> 0.67 < unknown_threshold(x, torch.tensor([0, 0, 1, 1])) < 0.68
        True
    """
    classes, counts = torch.unique(labels, return_counts=True)
    if len(classes) < 2 or not 0.0 <= refuse <= 1.0:
        raise UserError(
            f"{len(classes)} classes and refuse={refuse} given; give two classes or more, and a share from 0 to 1"
        )
    has_others = counts[torch.searchsorted(classes, labels)] > 1
    rows = has_others.nonzero().flatten() if bool(has_others.any()) else torch.arange(len(labels))
    if sample is not None and sample < len(rows):
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0), device="cpu")
        rows = rows[order[:sample].to(rows.device)]
    known = search(vectors[rows], vectors, 1, ids=(rows, torch.arange(len(labels)))).similarity[:, 0].double()
    strange = search(vectors[rows], vectors, 1, groups=(labels[rows], labels)).similarity[:, 0].double()
    low, high = int(refuse * len(rows)), len(rows) - 1
    if not bool(has_others.any()):
        return float(strange.sort().values[max(high - low, 0)]) + ROUNDING
    return min(float(known.sort().values[min(low, high)]) - ROUNDING, float(strange.max()) + ROUNDING)
