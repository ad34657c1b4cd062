"""All pairs of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.selection import pair_list
from similis.registry import register_miner
from similis.values import Pairs


@register_miner(
    returns="pairs",
    paper="Song, Xiang, Jegelka, Savarese: Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016",
)
def all_pairs(
    similarity: Tensor,  # noqa: ARG001 - every miner takes it
    positive: Tensor,
    negative: Tensor,
    *,
    generator: torch.Generator | None = None,  # noqa: ARG001 - every miner takes it
) -> Pairs:
    """Every ordered positive and every ordered negative pair.

    Args:
        similarity: (B, M), not looked at.
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        generator: not used.

    Shapes: (B, M) three times -> positive pairs twice (T,), negative pairs twice (U,), row by row.

    When to use: to see what a miner leaves out. A loss without a miner takes all pairs by itself.

    Example:
        >>> import torch
        >>> same = torch.tensor([[False, True], [True, False]])
        >>> all_pairs(torch.zeros(2, 2), same, torch.zeros_like(same)).counts()
        Counts(tuples=2, anchors=2)
    """
    return Pairs(*pair_list(positive), *pair_list(negative))
