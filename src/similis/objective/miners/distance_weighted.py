"""Distance-weighted sampling. Wu, Manmatha, Smola, Kraehenbuehl: Sampling Matters, ICCV 2017."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.selection import draw, pair_list, use_generator
from similis.objective.terms.distances import Similarities
from similis.registry import register_miner
from similis.values import Triplets, UserError

INF = float("inf")
FARTHEST = 1.99  # just short of opposite points, where the density is 0 and its logarithm is not finite


@register_miner(
    returns="triplets",
    paper="Wu, Manmatha, Smola, Kraehenbuehl: Sampling Matters in Deep Embedding Learning, ICCV 2017",
)
def distance_weighted(
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    dim: int | None = None,
    nearest_dist: float = 0.5,
    cutoff_dist: float = 1.4,
    generator: torch.Generator | None = None,
    first: int = 0,
) -> Triplets:
    r"""One negative for each ordered positive pair, drawn evenly over distances instead of over samples.

    .. math::
        \Pr(n \mid a) \propto \frac{1}{q(\max(D_{an}, 0.5))}, \qquad
        q(d) \propto d^{\,D-2} \big(1 - d^2 / 4\big)^{(D-3)/2}

    q is the density of distances of uniform points on the sphere of D dimensions, where nearly all
    pairs are sqrt(2) apart. Weights are formed row by row in the log domain: they span 370 nats at
    512 dimensions. Negatives at ``cutoff_dist`` or beyond are not drawn, unless an anchor has no
    nearer one: then all of its negatives are equally likely.

    Args:
        similarity: (B, M), cosines.
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        dim: D, the embedding size, at least 2; a loss that mines hands it over by itself.
        nearest_dist: distances below it count as this one, which bounds the weight of the nearest.
        cutoff_dist: distance from which on a negative has no weight.
        generator: of the draws; None for a new one of seed 0, the same draw each call.
        first: number of the first row among the anchors of all ranks.

    Shapes: (B, M) three times -> three times (T,), one for each positive pair of an anchor that has
    negatives.

    When to use: with the margin loss, for which it was made (the cut-off is its boundary 1.2 plus
    its margin 0.2), or with the triplet loss.

    Reference: Wu et al., Sampling Matters in Deep Embedding Learning, ICCV 2017.

    Example:
        >>> import torch
        >>> s = torch.tensor([[1.0, 0.8, 0.5, -0.9]])
        >>> same = torch.tensor([[False, True, False, False]])
        >>> distance_weighted(s, same, torch.tensor([[False, False, True, True]]), dim=128).negatives
        tensor([2])
    """
    chances = probabilities(similarity, negative, dim, nearest_dist, cutoff_dist)
    anchors, positives = pair_list(positive & negative.any(1)[:, None])
    return Triplets(anchors, positives, draw(chances, anchors, use_generator(generator), first))


def log_weight(distance: Tensor, dim: int) -> Tensor:
    """``log 1 / q(d)`` up to a constant, for 0 < d < 2 and D = ``dim`` dimensions."""
    return (2 - dim) * distance.log() - (dim - 3) / 2 * torch.log1p(-distance.square() / 4)


def probabilities(
    similarity: Tensor, negative: Tensor, dim: int | None, nearest_dist: float = 0.5, cutoff_dist: float = 1.4
) -> Tensor:
    """(B, M) float64: the chance of each negative; rows of zeros for anchors without negatives."""
    if dim is None or dim < 2:
        raise UserError(
            f"dim is {dim}; distance weighting needs the embedding size, at least 2: pass dim=, for example "
            "functools.partial(distance_weighted, dim=512), or let a loss mine with miner='distance_weighted'"
        )
    distance = Similarities(similarity.double(), None).d
    valid = negative & (distance < cutoff_dist)
    weight = log_weight(distance.clamp(nearest_dist, FARTHEST), dim)
    weight = torch.where(valid, weight, torch.where(negative & ~valid.any(1, keepdim=True), 0.0, -INF))
    return torch.where(negative.any(1, keepdim=True), weight, 0.0).softmax(1) * negative
