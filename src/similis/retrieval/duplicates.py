"""Near-duplicates: embeddings propose pairs, pixels decide whether one image is a cut of the other."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from similis.values import Neighbors

SMALLEST = 57 / 64  # side of the smallest cut that is tried: 0.79 of the area
WORTH = 0.85  # correlation at half of the size from which the full size is compared
TOGETHER = 64  # pairs that are compared at once


def close_pairs(near: Neighbors, cut: float, *, most: int = 30) -> Tensor:
    """Pairs (P, 2) of samples at least this similar, each once, the smaller row first.

    Args:
        near: neighbours of every sample among all.
        cut: smallest cosine similarity.
        most: neighbours of each sample that are looked at.

    Example:
        >>> close_pairs(Neighbors(torch.tensor([[1], [0], [0]]), torch.tensor([[0.9], [0.9], [0.2]])), 0.5).tolist()
        [[0, 1]]
    """
    index, similar = near.index[:, :most], near.similarity[:, :most] >= cut
    rows = torch.arange(len(index))[:, None].expand_as(index)
    pairs = torch.stack([torch.minimum(rows, index), torch.maximum(rows, index)], dim=-1)[similar]
    found: Tensor = torch.unique(pairs, dim=0)
    return found


def overlap(first: Tensor, second: Tensor) -> Tensor:
    r"""How well the better of two images explains the other as a cut of itself, mirrored or not (P,), -1 to 1.

    It is the normalised cross-correlation of one image a with the best window b of the other,
    :math:`\langle a - \bar a, b - \bar b \rangle / (\|a - \bar a\| \|b - \bar b\|)`, over places and sizes of the
    window. Brightness and contrast do not matter.

    Args:
        first: grey images (P, S, S), floating point.
        second: as many.

    When to use: to tell a copy that was cut, mirrored and compressed again from another photo of the same thing,
        which embeddings do not separate.

    Example:
        >>> x = torch.rand(1, 64, 64, generator=torch.Generator().manual_seed(0))
        >>> round(float(overlap(x, x.flip(2))), 3)
        1.0
    """
    found = _overlap(*(functional.avg_pool2d(some[:, None], 2)[:, 0] for some in (first, second)))
    worth = (found >= WORTH).nonzero()[:, 0]  # few are; at the full size a pair costs sixteen times as much
    return found.index_copy(0, worth, _overlap(first[worth], second[worth]))


def _overlap(first: Tensor, second: Tensor) -> Tensor:
    found = [first.new_empty(0)]
    for start in range(0, len(first), TOGETHER):
        a, b = first[start : start + TOGETHER], second[start : start + TOGETHER]
        mirrored = b.flip(2)
        ways = ((a, b), (b, a), (a, mirrored), (mirrored, a))
        found.append(torch.stack([best_window(whole, cut) for whole, cut in ways]).amax(dim=0))
    return torch.cat(found)


def best_window(whole: Tensor, cut: Tensor) -> Tensor:
    """The largest correlation of ``cut`` (P, S, S) with a square window of ``whole`` (P, S, S)."""
    side = whole.shape[-1]
    best = whole.new_full((len(whole),), -1.0)
    for width in range(round(SMALLEST * side), side + 1):
        size = (width, width)
        shape = functional.interpolate(cut[:, None], size=size, mode="bilinear", antialias=True).flatten(1)
        shape = shape - shape.mean(dim=1, keepdim=True)
        windows = whole.unfold(1, width, 1).unfold(2, width, 1).flatten(3).flatten(1, 2)  # (P, places, width ** 2)
        spread = windows.var(dim=2, correction=0).mul(width**2).sqrt()
        product = torch.bmm(windows, shape[:, :, None])[..., 0]
        correlation = product / (spread * shape.norm(dim=1, keepdim=True)).clamp(min=1e-6)
        best = torch.maximum(best, correlation.amax(dim=1))
    return best
