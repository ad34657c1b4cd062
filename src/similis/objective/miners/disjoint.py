"""Disjoint tuples: each image of the batch is used at most once, as in the earliest papers."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.selection import use_generator
from similis.registry import register_miner
from similis.values import Pairs, Triplets

SIAMESE = (
    "Bromley, Guyon, LeCun, Saeckinger, Shah: Signature Verification using a Siamese Time Delay Network, NIPS 1993"
)


@register_miner(
    returns="triplets",
    paper="Wang, Song, Leung, Rosenberg, Wang, Philbin, Chen, Wu: Learning Fine-Grained Image Similarity with Deep "
    "Ranking, CVPR 2014",
    joint=True,
)
def disjoint(
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    generator: torch.Generator | None = None,
) -> Triplets:
    """Triplets in which no image occurs twice, matched greedily in random order.

    Anchors come in random order; one that is still free takes a random free positive and a random
    free negative, or is passed over. Column i must be row i for i < B, as in the references of a
    batch; further columns (a memory) are images of their own.

    Args:
        similarity: (B, M), used for its device only.
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        generator: of the order and the draws; None for a new one of seed 0, the same draw each call.

    Shapes: (B, M) three times -> three times (T,), T at most B / 3 without a memory.

    When to use: to show what sharing the images of a batch among many triplets is worth.

    Example:
        >>> import torch
        >>> labels = torch.tensor([0, 0, 1])
        >>> same = labels[:, None] == labels
        >>> disjoint(torch.zeros(3, 3), same & ~torch.eye(3, dtype=torch.bool), ~same).counts()
        Counts(tuples=1, anchors=1)
    """
    source = use_generator(generator)
    own, other, columns = positive.cpu(), negative.cpu(), positive.shape[1]
    free = torch.ones(max(positive.shape), dtype=torch.bool, device="cpu")
    found = []
    for anchor in torch.randperm(len(own), generator=source, device="cpu").tolist():
        near, far = ((free[:columns] & mask[anchor]).nonzero()[:, 0] for mask in (own, other))
        if free[anchor] and len(near) and len(far):
            found.append((anchor, one_of(near, source), one_of(far, source)))
            free[list(found[-1])] = False
    table = torch.tensor(found, dtype=torch.int64, device=similarity.device).view(-1, 3)
    return Triplets(table[:, 0], table[:, 1], table[:, 2])


@register_miner(returns="pairs", paper=SIAMESE, joint=True)
def disjoint_pairs(
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    generator: torch.Generator | None = None,
) -> Pairs:
    """Pairs in which no image occurs twice, as many positive as negative ones where that is possible.

    Images come in random order; a free one takes a random free partner of the kind of which there
    are fewer pairs so far (positive first), of the other kind if there is none, or is passed over.
    Column i must be row i for i < B; further columns (a memory) are images of their own.

    Args:
        similarity: (B, M), used for its device only.
        positive: (B, M), true for the positives of each row, self left out.
        negative: (B, M), true for its negatives.
        generator: of the order and the draws; None for a new one of seed 0, the same draw each call.

    Shapes: (B, M) three times -> positive pairs twice (T,), negative pairs twice (U,), T + U at most
    B / 2 without a memory.

    When to use: to show what sharing the images of a batch among many pairs is worth.

    Example:
        >>> import torch
        >>> labels = torch.tensor([0, 0, 1])
        >>> same = labels[:, None] == labels
        >>> disjoint_pairs(torch.zeros(3, 3), same & ~torch.eye(3, dtype=torch.bool), ~same).counts()
        Counts(tuples=1, anchors=1)
    """
    source = use_generator(generator)
    masks, columns = (positive.cpu(), negative.cpu()), positive.shape[1]
    free = torch.ones(max(positive.shape), dtype=torch.bool, device="cpu")
    found: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for anchor in torch.randperm(len(positive), generator=source, device="cpu").tolist():
        fewer = int(len(found[1]) < len(found[0]))
        for kind in (fewer, 1 - fewer):
            partners = (free[:columns] & masks[kind][anchor]).nonzero()[:, 0]
            if free[anchor] and len(partners):
                found[kind].append((anchor, one_of(partners, source)))
                free[list(found[kind][-1])] = False
    near, far = (torch.tensor(f, dtype=torch.int64, device=similarity.device).view(-1, 2) for f in found)
    return Pairs(near[:, 0], near[:, 1], far[:, 0], far[:, 1])


def one_of(choices: Tensor, source: torch.Generator) -> int:
    """A uniform draw from a list that is not empty."""
    return int(choices[torch.randint(len(choices), (1,), generator=source, device="cpu")])
