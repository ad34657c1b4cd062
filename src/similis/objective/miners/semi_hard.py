"""Semi-hard triplets. Schroff, Kalenichenko, Philbin: FaceNet, CVPR 2015."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from similis.objective.selection import draw, first_below, first_largest, pair_list, use_generator
from similis.registry import check_known, register_miner
from similis.values import Triplets

Missing = Literal["skip", "easiest", "random"]
CHOICES = ["skip", "easiest", "random"]


@register_miner(
    returns="triplets",
    paper="Schroff, Kalenichenko, Philbin: FaceNet: A Unified Embedding for Face Recognition and Clustering, CVPR 2015",
)
def semi_hard(
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    missing: Missing = "skip",
    generator: torch.Generator | None = None,
    first: int = 0,
) -> Triplets:
    r"""For each ordered positive pair the nearest of the negatives that are farther than the positive.

    .. math::
        n(a, p) = \arg\max_{n \in N_a, \, S_{an} < S_{ap}} S_{an}

    (Eq. 2.20 of the thesis.) The margin of the loss has no part in it: a negative outside the margin
    has no loss. Equal similarities go to the lowest column.

    Args:
        similarity: (B, M).
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        missing: for a pair without such a negative: ``skip`` it, take the ``easiest`` (farthest)
            negative, or a ``random`` one.
        generator: for ``missing="random"``; None for a new one of seed 0, the same draw each call.
        first: number of the first row among the anchors of all ranks.

    Shapes: (B, M) three times -> three times (T,), at most one for each positive pair.

    When to use: with the triplet loss, from the first step; batch-hard is the bolder choice.

    Reference: Schroff et al., FaceNet, CVPR 2015.

    Example:
        >>> import torch
        >>> s = torch.tensor([[1.0, 0.6, 0.9, 0.5, 0.1]])
        >>> same = torch.tensor([[False, True, False, False, False]])
        >>> semi_hard(s, same, torch.tensor([[False, False, True, True, True]])).negatives
        tensor([3])
    """
    check_known("choice of missing", missing, CHOICES)
    anchors, positives = pair_list(positive & negative.any(1)[:, None])
    negatives = first_below(similarity, negative, anchors, similarity[anchors, positives])
    none = negatives < 0
    if missing == "skip":
        return Triplets(anchors[~none], positives[~none], negatives[~none])
    rows = anchors[none]
    if missing == "easiest":
        negatives[none] = first_largest(-similarity, negative)[rows]
    else:
        negatives[none] = draw(negative, rows, use_generator(generator), first)
    return Triplets(anchors, positives, negatives)
