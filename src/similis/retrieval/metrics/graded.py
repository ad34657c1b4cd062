r"""Metrics of one query each where answers have grades: gains :math:`g_1, g_2, \dots` in the order found.

    nDCG@k   sum over i <= k of g_i / log2(i + 1), over the same sum for the best order (Jarvelin, Kekalainen 2002)
    mAP      mean of the precision at the ranks of all matches, those with a gain above 0

Ties are pessimistic: of equal similarity, the lower gain comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.metrics.ranking import BEYOND
from similis.retrieval.search import NEVER, Members, hide
from similis.retrieval.similarity import tile_rows
from similis.values import Neighbors


class Gains(NamedTuple):
    """Ranks (Q, G) of the matches, rising; their number (Q,); gains (Q, G) in the order found and in the best order."""

    ranks: Tensor
    matches: Tensor
    found: Tensor
    best: Tensor


def graded_tiles(
    score: Callable[[Tensor, int], Iterable[tuple[int, Tensor]]],
    gains: Callable[[Tensor], Tensor],
    sizes: tuple[int, int],
    hidden: tuple[Members, ...],
    *,
    nearest: int,
    tile: int,
) -> Iterator[tuple[Tensor, Gains, Neighbors]]:
    """For each tile its queries (t,), their gains, and their nearest neighbours; each row is sorted whole.

    Args:
        score: compares queries (t,) with all rows of the gallery.
        gains: queries (t,) -> gains (t, G) of the gallery, at least 0.
        sizes: Q and G.
        hidden: what a query may not find.
        nearest: how many neighbours.
        tile: similarities held at once.
    """
    queries, columns = sizes
    for rows in torch.split(torch.arange(queries), tile_rows(columns, tile)):
        ((_, similarity),) = score(rows, columns)
        hide(similarity, rows, hidden, 0)
        gain = torch.where(similarity > NEVER, gains(rows).double(), 0.0)
        rising = gain.argsort(dim=1, stable=True)
        falling = similarity.gather(1, rising).argsort(dim=1, descending=True, stable=True)
        order = rising.gather(1, falling)
        found = gain.gather(1, order)
        place = torch.arange(1, columns + 1, device=found.device)
        ranks = torch.where(found > 0, place, BEYOND).sort(dim=1).values
        near, values = order[:, :nearest], similarity.gather(1, order[:, :nearest])
        near = torch.where(values > NEVER, near, -1)
        best = gain.sort(dim=1, descending=True).values
        yield rows, Gains(ranks, (found > 0).sum(dim=1), found, best), Neighbors(near, values)


def ndcg_at_k(gains: Gains, k: int) -> Tensor:
    """Discounted gain of the first k over that of the best order: (Q,); NaN without a match.

    Example:
        >>> one = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        >>> round(ndcg_at_k(Gains(one, torch.tensor([1]), one, one.flip(1)), 2).item(), 4)
        0.6309
    """
    discount = 1 / torch.arange(2, gains.found.shape[1] + 2, device=gains.found.device).double().log2()
    discount[k:] = 0
    return (gains.found @ discount) / (gains.best @ discount)


def average_precision(gains: Gains) -> Tensor:
    """Mean precision at the ranks of all matches: (Q,); NaN without a match."""
    number = torch.arange(1, gains.ranks.shape[1] + 1, device=gains.ranks.device)
    precision = torch.where(gains.ranks < BEYOND, number / gains.ranks.double(), 0.0)
    return precision.sum(dim=1) / gains.matches
