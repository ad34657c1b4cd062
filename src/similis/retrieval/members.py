"""Which gallery rows belong to a query: same label, same id, same group. Ragged lists, never a Q x G mask."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from similis.values import UserError


class Cells(NamedTuple):
    """Cells of a tile: row of the tile, gallery column, and the running number within the row; all (P,)."""

    rows: Tensor
    columns: Tensor
    slots: Tensor


class Members(NamedTuple):
    """Gallery rows ordered by key (G,), and for each query the start and length of its stretch (Q,)."""

    order: Tensor
    start: Tensor
    sizes: Tensor

    def cells(self, queries: Tensor) -> Cells:
        """The cells that the members of these queries (t,) fill in a tile (t, G), columns rising in each row."""
        sizes = self.sizes[queries]
        rows = torch.repeat_interleave(torch.arange(len(queries), device=sizes.device), sizes)
        slots = torch.arange(len(rows), device=sizes.device) - (sizes.cumsum(0) - sizes)[rows]
        return Cells(rows, self.order[self.start[queries][rows] + slots], slots)


def members(query_keys: Tensor, gallery_keys: Tensor) -> Members:
    """For each query the gallery rows with an equal key, in O((Q + G) log G).

    Args:
        query_keys: (Q,) integers of any size.
        gallery_keys: (G,) integers of any size.

    Example:
        >>> found = members(torch.tensor([7, 5]), torch.tensor([5, 7, 9, 7]))
        >>> found.sizes.tolist(), found.cells(torch.tensor([0])).columns.tolist()
        ([2, 1], [1, 3])
    """
    for name, keys in (("query", query_keys), ("gallery", gallery_keys)):
        if keys.is_floating_point() or keys.ndim != 1:
            raise UserError(
                f"{name} keys of {keys.dtype} and shape {tuple(keys.shape)} given; labels, ids and groups are vectors "
                "of integers (floats would merge numbers above 2^24)"
            )
    ordered, order = gallery_keys.long().sort(stable=True)
    start = torch.searchsorted(ordered, query_keys.long())
    return Members(order, start, torch.searchsorted(ordered, query_keys.long(), right=True) - start)


def excluded(ids: tuple[Tensor, Tensor] | None, groups: tuple[Tensor, Tensor] | None) -> tuple[Members, ...]:
    """Members that a query may not find: itself (equal id), and its own group (a negative group is none)."""
    found = []
    if ids is not None:
        found.append(members(*ids))
    if groups is not None:
        own = members(*groups)
        found.append(own._replace(sizes=torch.where(groups[0] < 0, 0, own.sizes)))
    return tuple(found)
