"""Ranks of the matches of every query, tile by tile, with pessimistic ties, in memory of one tile.

The trick: take the matches out of a row of similarities first. What is left are non-matches, and the m-th match
stands behind itself and its better brothers, m, and behind every non-match that is at least as similar. The
``horizon`` largest non-matches suffice for all ranks up to the horizon, so nothing is ever sorted whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from similis.retrieval.metrics.ranking import BEYOND, Ranks
from similis.retrieval.search import NEVER, Members, hide, merge_top
from similis.retrieval.similarity import tile_rows
from similis.values import Neighbors


def ranked_tiles(
    score: Callable[[Tensor, int], Iterable[tuple[int, Tensor]]],
    columns: int,
    matches: Members,
    hidden: tuple[Members, ...],
    *,
    cut: int,
    nearest: int,
    tile: int,
    width: int,
) -> Iterator[tuple[Tensor, Ranks, Neighbors]]:
    """For each tile the numbers of its queries (t,), the ranks of their matches, and their nearest neighbours.

    Tiles come in the order of class size, so that cost follows the sum of R.

    ``score`` compares queries (t,) with blocks of so many of the ``columns`` rows of the gallery, see
    :func:`similis.retrieval.similarity.column_blocks`. ``cut`` is the largest k that a metric asks for; R is added for
    each tile. Neighbours are in the order of ranks.
    """
    order = matches.sizes.argsort(stable=True)
    start = 0
    while start < len(order):
        most = int(matches.sizes[order[start : start + tile_rows(width, tile)]].max())  # a bound for the tile below
        rows = order[start : start + tile_rows(width + 4 * most, tile)]
        start += len(rows)
        own, others, last = _compare(score(rows, width), rows, matches, hidden, max(cut, nearest))
        ranks = _ranks(own[0], others[0])
        late = ((ranks[:, :1] == BEYOND) & (own[0][:, :1] > NEVER)).nonzero()[:, 0]  # the first is behind the horizon
        if len(late) and width >= columns:
            ranks[late, 0] = 1 + _count(last[late], own[0][late])
        elif len(late):  # whole rows, a few at a time: ties are exact only within one product
            for part in torch.split(late, tile_rows(columns, tile)):
                again, _, whole = _compare(score(rows[part], columns), rows[part], matches, hidden, 1)
                ranks[part, 0] = 1 + _count(whole, again[0])
        yield rows, Ranks(ranks, (own[0] > NEVER).sum(dim=1)), _merge(others, own, nearest)


def _compare(
    blocks: Iterable[tuple[int, Tensor]], rows: Tensor, matches: Members, hidden: tuple[Members, ...], least: int
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], Tensor]:
    """Falling similarities and columns of matches (t, W) and of the nearest others, and the last block without matches.

    The others are as many as the widest row has matches, and at least ``least``.
    """
    width = int(matches.sizes[rows].max())
    columns = torch.full((len(rows), width), -1, dtype=torch.long, device=rows.device)
    own, others, last = columns, (columns, columns), columns  # until the first block
    for start, last in blocks:
        if not start:
            own = last.new_full((len(rows), width), NEVER)
        hide(last, rows, hidden, start)
        line, place, slot = matches.cells(rows, start, last.shape[1])
        own[line, slot] = last[line, place]
        columns[line, slot] = place + start
        last[line, place] = NEVER
        others = merge_top(others, last, start, max(least, width))
    own, order = own.sort(dim=1, descending=True, stable=True)
    return (own, columns.gather(1, order)), others, last


def _count(scores: Tensor, own: Tensor) -> Tensor:
    """How many of the non-matches (l, G) are at least as similar as the first match of (l, W)."""
    return (scores >= own[:, :1]).sum(dim=1, dtype=torch.int32).long()


def _ranks(own: Tensor, others: Tensor) -> Tensor:
    """Ranks (t, W) of falling matches among falling non-matches (t, L)."""
    before = torch.searchsorted(-others, -own, right=True)
    ranks = before + torch.arange(1, own.shape[1] + 1, device=own.device)
    ranks[(before >= others.shape[1]) | (own == NEVER)] = BEYOND
    return ranks


def _merge(others: tuple[Tensor, Tensor], own: tuple[Tensor, Tensor], k: int) -> Neighbors:
    """The k nearest of non-matches and matches, a non-match first where they are equal."""
    values, columns = (torch.cat([one[:, :k], two[:, :k]], dim=1) for one, two in zip(others, own, strict=True))
    values, order = values.sort(dim=1, descending=True, stable=True)
    values, columns = values[:, :k], columns.gather(1, order)[:, :k]
    columns, missing = torch.where(values > NEVER, columns, -1), (0, k - values.shape[1])
    return Neighbors(functional.pad(columns, missing, value=-1), functional.pad(values, missing, value=NEVER))
