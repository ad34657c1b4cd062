"""All triplets of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.selection import expand_triplets
from similis.registry import register_miner
from similis.values import Triplets


@register_miner(
    returns="triplets",
    paper="Hermans, Beyer, Leibe: In Defense of the Triplet Loss for Person Re-Identification, 2017 (batch all)",
)
def all_triplets(
    similarity: Tensor,  # noqa: ARG001 - every miner takes it
    positive: Tensor,
    negative: Tensor,
    *,
    generator: torch.Generator | None = None,  # noqa: ARG001 - every miner takes it
) -> Triplets:
    """Every (a, p, n) with p a positive and n a negative of a.

    Args:
        similarity: (B, M), not looked at.
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        generator: not used.

    Shapes: (B, M) three times -> three times (T,), sorted by anchor, positive, negative.

    When to use: to see what a miner leaves out. A loss without a miner takes all triplets by itself,
    in less memory.

    Example:
        >>> import torch
        >>> same = torch.tensor([[False, True, False]])
        >>> all_triplets(torch.zeros(1, 3), same, torch.tensor([[False, False, True]])).counts()
        Counts(tuples=1, anchors=1)
    """
    return expand_triplets(positive, lambda anchors, _: negative[anchors])
