"""Batch-hard. Hermans, Beyer, Leibe: In Defense of the Triplet Loss for Person Re-Identification, 2017."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.selection import expand_triplets, first_largest
from similis.registry import register_miner
from similis.values import Triplets


@register_miner(
    returns="triplets",
    paper="Hermans, Beyer, Leibe: In Defense of the Triplet Loss for Person Re-Identification, 2017",
)
def batch_hard(
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    every: bool = False,
    generator: torch.Generator | None = None,  # noqa: ARG001 - every miner takes it
) -> Triplets:
    r"""The farthest positive and the nearest negative of each anchor.

    .. math::
        p(a) = \arg\min_{p \in P_a} S_{ap}, \qquad n(a) = \arg\max_{n \in N_a} S_{an}

    (Eqs. 2.18 and 2.19 of the thesis.) Equal similarities go to the lowest column.

    Args:
        similarity: (B, M).
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        every: all triplets with :math:`S_{an} > S_{ap}` instead of one for each anchor.
        generator: not used.

    Shapes: (B, M) three times -> three times (T,), T at most B unless ``every``.

    When to use: clean labels and a network that is past its first steps; at the start, or with wrong
    labels, the hardest triplets pull everything into one point.

    Reference: Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017.

    Example:
        >>> import torch
        >>> s = torch.tensor([[1.0, 0.9, 0.2, 0.5, 0.1]])
        >>> same = torch.tensor([[False, True, True, False, False]])
        >>> batch_hard(s, same, torch.tensor([[False, False, False, True, True]]))[1:]
        (tensor([2]), tensor([3]))
    """
    if every:
        return expand_triplets(positive, lambda a, p: negative[a] & (similarity[a] > similarity[a, p][:, None]))
    anchors = (positive.any(1) & negative.any(1)).nonzero()[:, 0]
    farthest, nearest = first_largest(-similarity, positive), first_largest(similarity, negative)
    return Triplets(anchors, farthest[anchors], nearest[anchors])
