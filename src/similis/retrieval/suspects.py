"""What embeddings say about labels: samples whose neighbours disagree or that fit nowhere, classes that are one."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.search import search
from similis.values import Neighbors, UserError

VOTERS = 200  # neighbours that vote; fewer make the list of doubts worse on every data set that was measured
TEMPERATURE = 0.05  # of the votes, in units of cosine similarity
SUPPORT = 5  # nearest samples of one class that a sample is compared with


class Votes(NamedTuple):
    """What the neighbours of each sample vote for.

    Attributes:
        doubt: (N,) one minus the votes for the own label over those for the class with most: 0 where no other class
            has more votes, near 1 where hardly a neighbour agrees.
        suggestion: (N,) the class with most votes.
        shares: (C, C) mean share of the votes of the samples of a class (row) for each class (column).
    """

    doubt: Tensor
    suggestion: Tensor
    shares: Tensor


def nearest_samples(vectors: Tensor, k: int = VOTERS) -> Neighbors:
    """The k nearest other samples of each, exactly; fewer where there are not so many."""
    if len(vectors) < 2:
        raise UserError(f"{len(vectors)} samples given; two or more are needed to compare them")
    rows = torch.arange(len(vectors))
    return search(vectors, vectors, min(k, len(vectors) - 1), ids=(rows, rows))


def label_votes(near: Neighbors, labels: Tensor, *, temperature: float = TEMPERATURE) -> Votes:
    r"""Votes of the neighbours for each class, and how much they doubt a label.

    Each neighbour j of sample i has the weight :math:`\exp(s_{ij} / T)`; a sample never votes for itself, so the
    votes are out of fold. A doubt compares the own class with the best one, and not with all: a sample between two
    classes of which one is its own is no suspect.

    Args:
        near: of :func:`nearest_samples`.
        labels: (N,), 0 to C - 1.
        temperature: T of the weights.

    When to use: to rank labels by how likely they are wrong; check the largest first.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2], [0.0, 1.0], [0.1, 1.0]])
        >>> votes = label_votes(nearest_samples(x), torch.tensor([0, 0, 1, 1, 1]))
        >>> int(votes.doubt.argmax()), int(votes.suggestion[2])
        (2, 0)
    """
    classes = int(labels.max()) + 1
    doubt, suggestion = torch.empty(len(labels)), torch.empty(len(labels), dtype=torch.long)
    shares = torch.zeros(classes, classes)
    for rows in torch.split(torch.arange(len(labels)), max(1, 2**24 // classes)):
        weights = ((near.similarity[rows] - near.similarity[rows, :1]) / temperature).exp()
        votes = torch.zeros(len(rows), classes).scatter_add_(1, labels[near.index[rows]], weights)
        best, suggestion[rows] = votes.max(dim=1)
        doubt[rows] = 1 - votes.gather(1, labels[rows, None])[:, 0] / best
        shares.index_add_(0, labels[rows], votes / votes.sum(dim=1, keepdim=True))
    return Votes(doubt, suggestion, shares / torch.bincount(labels, minlength=classes).clamp(min=1)[:, None])


def belonging(near: Neighbors, labels: Tensor, *, support: int = SUPPORT) -> Tensor:
    """How well each sample fits the class that it fits best (N,): mean similarity to its nearest samples of that class.

    A class with fewer samples among the neighbours than ``support`` counts with the similarity of the last neighbour
    for those that are missing: some foreign images that resemble each other support no one.

    Args:
        near: of :func:`nearest_samples`.
        labels: (N,), 0 to C - 1.
        support: nearest samples of a class that count.
    """
    found = torch.empty(len(labels))
    for rows in torch.split(torch.arange(len(labels)), 2048):
        voted, order = labels[near.index[rows]].sort(dim=1, stable=True)  # nearest first within a class
        values, floor = near.similarity[rows].gather(1, order), near.similarity[rows, -1:]
        place = torch.arange(voted.shape[1]).expand_as(voted)
        begins = torch.cat([torch.ones(len(rows), 1, dtype=torch.bool), voted[:, 1:] != voted[:, :-1]], dim=1)
        turn = place - torch.where(begins, place, 0).cummax(dim=1).values
        above = torch.where(turn < support, values - floor, 0.0)
        run = begins.long().cumsum(dim=1) - 1
        sums = torch.zeros_like(values).scatter_add_(1, run, above)
        found[rows] = floor[:, 0] + sums.amax(dim=1) / support
    return found


def strangeness(near: Neighbors, labels: Tensor) -> Tensor:
    """How many robust standard deviations each sample belongs less than the median one (N,)."""
    held = belonging(near, labels)
    middle = held.median()
    spread = 1.4826 * (held - middle).abs().median()
    return (middle - held) / spread.clamp(min=1e-6)


def similar_classes(shares: Tensor, cut: float = 0.4) -> list[tuple[int, int, float]]:
    """Pairs of classes that the neighbours do not separate, the most similar first.

    The score of classes a and b is the smaller of :math:`v_{ab} / (v_{aa} + v_{ab})` and the same with a and b
    exchanged: 0.5 where the votes for both are equal, 0 where the classes never meet.

    Args:
        shares: of :class:`Votes`.
        cut: smallest score of a pair.

    Example:
        >>> similar_classes(torch.tensor([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]]))
        [(0, 1, 0.4000000059604645)]
    """
    own = shares.diagonal()[:, None]
    score = shares / (shares + own).clamp(min=1e-12)
    score = torch.triu(torch.minimum(score, score.T), diagonal=1)
    first, second = (score >= cut).nonzero(as_tuple=True)
    found = [(int(a), int(b), float(score[a, b])) for a, b in zip(first, second, strict=True)]
    return sorted(found, key=lambda pair: -pair[2])
