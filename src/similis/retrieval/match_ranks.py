"""Ranks of the matches of every query, tile by tile, with pessimistic ties, in memory of one tile.

The trick: take the matches out of a row of similarities first. What is left are non-matches, and the m-th match
stands behind itself and its better brothers, m, and behind every non-match that is at least as similar. The
``horizon`` largest non-matches suffice for all ranks up to the horizon, so nothing is ever sorted whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.metrics.ranking import BEYOND, Ranks
from similis.retrieval.search import NEVER, Members, hide, top
from similis.retrieval.similarity import tile_rows
from similis.values import Neighbors


class RankedTile(NamedTuple):
    """Query numbers of a tile (t,), the ranks of their matches, and their nearest neighbours."""

    queries: Tensor
    found: Ranks
    nearest: Neighbors


def ranked_tiles(
    score: Callable[[Tensor], Tensor],
    columns: int,
    matches: Members,
    hidden: tuple[Members, ...],
    *,
    cut: int,
    nearest: int,
    tile: int,
) -> Iterator[RankedTile]:
    """Rank the matches of all queries; tiles come in the order of class size, so that cost follows the sum of R.

    ``score`` compares queries (t,) with the whole gallery of ``columns`` rows. ``cut`` is the largest k that a metric
    asks for; R is added for each tile. Neighbours are in the order of ranks.
    """
    order = matches.sizes.argsort(stable=True)
    start = 0
    while start < len(order):
        most = int(matches.sizes[order[start : start + tile_rows(columns, tile)]].max())  # a bound for the tile below
        rows = order[start : start + tile_rows(columns + 4 * most, tile)]
        start += len(rows)
        scores = hide(score(rows), rows, hidden)
        own, own_columns = _take_out(scores, rows, matches)
        others, other_columns = top(scores, max(cut, own.shape[1], nearest))
        found = Ranks(_ranks(own, others, scores), (own > NEVER).sum(dim=1))
        yield RankedTile(rows, found, _merge((others, other_columns), (own, own_columns), nearest))


def _take_out(scores: Tensor, rows: Tensor, matches: Members) -> tuple[Tensor, Tensor]:
    """Similarities of the matches, falling, with their columns (t, W); in ``scores`` they become -inf."""
    cells = matches.cells(rows)
    width = int(matches.sizes[rows].max())
    own = scores.new_full((len(rows), width), NEVER)
    columns = torch.full((len(rows), width), -1, dtype=torch.long, device=scores.device)
    own[cells.rows, cells.slots] = scores[cells.rows, cells.columns]
    columns[cells.rows, cells.slots] = cells.columns
    scores[cells.rows, cells.columns] = NEVER
    own, order = own.sort(dim=1, descending=True, stable=True)
    return own, columns.gather(1, order)


def _ranks(own: Tensor, others: Tensor, scores: Tensor) -> Tensor:
    """Ranks (t, W) of falling matches among falling non-matches (t, L); the first is exact even beyond L."""
    before = torch.searchsorted(-others, -own, right=True)
    horizon = others.shape[1]
    ranks = before + torch.arange(1, own.shape[1] + 1, device=own.device)
    ranks[(before >= horizon) | (own == NEVER)] = BEYOND
    if own.shape[1]:
        late = ((ranks[:, 0] == BEYOND) & (own[:, 0] > NEVER)).nonzero().flatten()
        ranks[late, 0] = 1 + (scores[late] >= own[late, :1]).sum(dim=1, dtype=torch.int32).long()
    return ranks


def _merge(others: tuple[Tensor, Tensor], own: tuple[Tensor, Tensor], k: int) -> Neighbors:
    """The k nearest of non-matches and matches, a non-match first where they are equal."""
    values = torch.cat([others[0][:, :k], own[0][:, :k]], dim=1)
    columns = torch.cat([others[1][:, :k], own[1][:, :k]], dim=1)
    values, order = values.sort(dim=1, descending=True, stable=True)
    values, columns = values[:, :k], columns.gather(1, order)[:, :k]
    missing = (0, k - values.shape[1])
    columns = torch.where(values > NEVER, columns, -1)
    return Neighbors(
        torch.nn.functional.pad(columns, missing, value=-1), torch.nn.functional.pad(values, missing, value=NEVER)
    )
