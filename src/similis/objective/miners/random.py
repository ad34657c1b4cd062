"""Random triplets: one for each anchor."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.selection import draw, use_generator
from similis.registry import register_miner
from similis.values import Triplets


@register_miner(
    returns="triplets",
    paper="Hoffer, Ailon: Deep Metric Learning Using Triplet Network, SIMBAD 2015",
)
def random(
    similarity: Tensor,  # noqa: ARG001 - every miner takes it
    positive: Tensor,
    negative: Tensor,
    *,
    generator: torch.Generator | None = None,
    first: int = 0,
) -> Triplets:
    """One triplet for each anchor that has both sets: a uniform positive and a uniform negative.

    Args:
        similarity: (B, M), not looked at.
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        generator: of the draws, on the processor; None for a new one of seed 0, the same draw each call.
        first: number of the first row among the anchors of all ranks.

    Shapes: (B, M) three times -> three times (T,), T at most B, in the order of the anchors.

    When to use: the base line that a miner must beat.

    Example:
        >>> import torch
        >>> same = torch.tensor([[False, True, False]])
        >>> random(torch.zeros(1, 3), same, torch.tensor([[False, False, True]])).negatives
        tensor([2])
    """
    source = use_generator(generator)
    anchors = (positive.any(1) & negative.any(1)).nonzero()[:, 0]
    return Triplets(anchors, draw(positive, anchors, source, first), draw(negative, anchors, source, first))
