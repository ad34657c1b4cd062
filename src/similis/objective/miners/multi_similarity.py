"""Multi-similarity mining. Wang, Han, Huang, Dong, Scott: Multi-Similarity Loss, CVPR 2019."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.selection import pair_list
from similis.registry import register_miner
from similis.values import Pairs

INF = float("inf")


@register_miner(
    returns="pairs",
    paper="Wang, Han, Huang, Dong, Scott: Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, "
    "CVPR 2019",
)
def multi_similarity(
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    slack_cos: float = 0.1,
    generator: torch.Generator | None = None,  # noqa: ARG001 - every miner takes it
) -> Pairs:
    r"""Positives not much nearer than the nearest negative; negatives not much farther than the farthest positive.

    .. math::
        S_{ip} < \max_{n \in N_i} S_{in} + \epsilon, \qquad S_{in} > \min_{p \in P_i} S_{ip} - \epsilon

    An anchor keeps either pairs of both kinds or none.

    Args:
        similarity: (B, M), cosines.
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        slack_cos: epsilon, a cosine, 0.1 in the paper.
        generator: not used.

    Shapes: (B, M) three times -> positive pairs twice (T,), negative pairs twice (U,), row by row.

    When to use: for any pair loss; the multi-similarity loss has it built in.

    Reference: Wang et al., Multi-Similarity Loss, CVPR 2019.

    Example:
        >>> import torch
        >>> s = torch.tensor([[1.0, 0.9, 0.5, 0.6, 0.1]])
        >>> same = torch.tensor([[False, True, True, False, False]])
        >>> found = multi_similarity(s, same, torch.tensor([[False, False, False, True, True]]))
        >>> found.positives, found.negatives
        (tensor([2]), tensor([3]))
    """
    if not similarity.shape[1]:
        return Pairs(*pair_list(positive), *pair_list(negative))
    nearest = torch.where(negative, similarity, -INF).amax(1, keepdim=True)
    farthest = torch.where(positive, similarity, INF).amin(1, keepdim=True)
    near = pair_list(positive & (similarity < nearest + slack_cos))
    far = pair_list(negative & (similarity > farthest - slack_cos))
    return Pairs(*near, *far)
