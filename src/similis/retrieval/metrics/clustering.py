"""K-means, seeded and in tiles: the clusters that NMI, AMI and pair F1 compare with the classes."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.values import UserError

TILE = 2**24


def kmeans(vectors: Tensor, k: int, *, generator: torch.Generator, steps: int = 20, tile: int = TILE) -> Tensor:
    """The cluster of each row (N,), by Lloyd's algorithm, until nothing moves or for ``steps`` rounds.

    It starts from seeds of k-means++ (Arthur and Vassilvitskii, SODA 2007).

    A cluster that loses all rows takes the row farthest from its centre. Time O(steps N k D), memory O(tile).

    Args:
        vectors: (N, D), at least k rows.
        k: number of clusters.
        generator: the only source of chance.
        steps: rounds of Lloyd's algorithm at most.
        tile: distances held at once.

    Example:
        >>> x = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
        >>> found = kmeans(x, 2, generator=torch.Generator().manual_seed(0))
        >>> bool(found[0] == found[1] and found[2] == found[3] and found[0] != found[2])
        True
    """
    if not 1 <= k <= len(vectors):
        raise UserError(f"k={k} clusters asked of {len(vectors)} vectors; give a k from 1 to their number")
    assignment, far = nearest_centre(vectors, plus_plus(vectors, k, generator), tile)
    for _ in range(steps):
        before = assignment
        assignment, far = nearest_centre(vectors, _means(vectors, assignment, far, k), tile)
        if torch.equal(assignment, before):
            break
    return assignment


def plus_plus(vectors: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """K rows as first centres (k, D), each drawn with the squared distance to the nearest earlier one as weight."""
    chance = torch.rand(k, generator=generator, dtype=torch.float64, device="cpu").tolist()
    chosen = [int(chance[0] * len(vectors))]
    squares = vectors.square().sum(dim=1)
    far = torch.full_like(squares, torch.inf)
    for draw in chance[1:]:
        last = vectors[chosen[-1]]
        far = torch.minimum(far, (squares - 2 * (vectors @ last) + last.square().sum()).clamp(min=0))
        far[chosen[-1]] = 0.0
        steps = far.double().cumsum(0)
        if steps[-1] > 0:
            row = int(torch.searchsorted(steps, draw * steps[-1], right=True))
        else:  # fewer distinct rows than clusters: any row will do
            row = int(draw * len(vectors))
        chosen.append(min(row, len(vectors) - 1))
    return vectors[torch.tensor(chosen, device=vectors.device)]


def nearest_centre(vectors: Tensor, centres: Tensor, tile: int = TILE) -> tuple[Tensor, Tensor]:
    """For each row its nearest centre (N,), the lowest of equals, and the squared distance (N,)."""
    half = centres.square().sum(dim=1) / 2
    found, far = [], []
    for part in torch.split(vectors, max(1, tile // len(centres))):
        value, place = torch.addmm(half, part, centres.T, alpha=-1).min(dim=1)
        found.append(place)
        far.append((part.square().sum(dim=1) + 2 * value).clamp(min=0))
    return torch.cat(found), torch.cat(far)


def _means(vectors: Tensor, assignment: Tensor, far: Tensor, k: int) -> Tensor:
    """Mean of the rows of each cluster; an empty cluster gets one of the farthest rows."""
    count = torch.bincount(assignment, minlength=k)
    sums = vectors.new_zeros((k, vectors.shape[1])).index_add_(0, assignment, vectors)
    centres = sums / count.clamp(min=1)[:, None]
    empty = (count == 0).nonzero().flatten()
    if len(empty):
        centres[empty] = vectors[far.argsort(descending=True, stable=True)[: len(empty)]]
    return centres
