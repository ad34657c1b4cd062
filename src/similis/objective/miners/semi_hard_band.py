"""All semi-hard triplets within the margin, as FaceNet's band is read by most public code."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from similis.objective.selection import expand_triplets
from similis.objective.terms.distances import Similarities
from similis.registry import check_known, register_miner
from similis.values import Triplets


@register_miner(
    returns="triplets",
    paper="Schroff, Kalenichenko, Philbin: FaceNet: A Unified Embedding for Face Recognition and Clustering, CVPR 2015",
)
def semi_hard_band(
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: float = 0.1,
    geometry: Literal["cosine", "euclid"] = "cosine",
    generator: torch.Generator | None = None,  # noqa: ARG001 - every miner takes it
) -> Triplets:
    r"""Every triplet whose negative is farther than the positive, but not by more than the margin.

    .. math::
        0 < S_{ap} - S_{an} \le \alpha \quad (\text{cosine}), \qquad
        0 < D_{an} - D_{ap} \le \alpha \quad (\text{euclid})

    Args:
        similarity: (B, M), cosines.
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        margin: alpha; take that of the loss.
        geometry: what the margin is measured in, cosines or distances of unit vectors; take that of
            the loss, the bands are different ones.
        generator: not used.

    Shapes: (B, M) three times -> three times (T,), sorted by anchor, positive, negative.

    When to use: with a triplet loss of the same margin and geometry; every triplet has a loss above
    0 and none is harder than its positive.

    Reference: Schroff et al., FaceNet, CVPR 2015.

    Example:
        >>> import torch
        >>> s = torch.tensor([[1.0, 0.6, 0.9, 0.55, 0.1]])
        >>> same = torch.tensor([[False, True, False, False, False]])
        >>> semi_hard_band(s, same, torch.tensor([[False, False, True, True, True]])).negatives
        tensor([3])
    """
    check_known("geometry of the band", geometry, ["cosine", "euclid"])
    far = Similarities(similarity, None).far(geometry)

    def in_band(anchors: Tensor, positives: Tensor) -> Tensor:
        beyond = far[anchors] - far[anchors, positives][:, None]
        return negative[anchors] & (beyond > 0) & (beyond <= margin)

    return expand_triplets(positive, in_band)
