"""Exact search: tiles of a matrix product, then the largest of each row. Ties go to the lowest gallery row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.similarity import (
    TILE,
    GalleryRows,
    Similarity,
    as_gallery,
    block_width,
    column_blocks,
    tile_rows,
    to_comparable,
)
from similis.values import Neighbors, UserError


class Members(NamedTuple):
    """Gallery rows ordered by key (G,), and for each query the start and length of its stretch (Q,)."""

    order: Tensor
    start: Tensor
    sizes: Tensor

    def cells(self, queries: Tensor, start: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """The cells that the members of these queries (t,) fill in a tile (t, width) of the columns from ``start``.

        For each (P,): the row and the column of the tile, and the running number among the members of the query.
        """
        sizes = self.sizes[queries]
        rows = torch.repeat_interleave(torch.arange(len(queries), device=sizes.device), sizes)
        slots = torch.arange(len(rows), device=sizes.device) - (sizes.cumsum(0) - sizes)[rows]
        columns = self.order[self.start[queries][rows] + slots]
        if width == len(self.order):
            return rows, columns, slots
        here = (columns >= start) & (columns < start + width)
        return rows[here], columns[here] - start, slots[here]


def members(query_keys: Tensor, gallery_keys: Tensor) -> Members:
    """For each query the gallery rows with an equal key, in O((Q + G) log G).

    Example:
        >>> found = members(torch.tensor([7, 5]), torch.tensor([5, 7, 9, 7]))
        >>> found.sizes.tolist(), found.cells(torch.tensor([0]), 0, 4)[1].tolist()
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


def hidden_members(ids: tuple[Tensor, Tensor] | None, groups: tuple[Tensor, Tensor] | None) -> tuple[Members, ...]:
    """Members that a query may not find: itself (equal id), and its own group (a negative group is none)."""
    found = () if ids is None else (members(*ids),)
    if groups is None:
        return found
    own = members(*groups)
    return (*found, own._replace(sizes=torch.where(groups[0] < 0, 0, own.sizes)))


NEVER = float("-inf")


def search(
    queries: Tensor,
    gallery: Tensor | GalleryRows,
    k: int,
    *,
    similarity: Similarity = "cosine",
    ids: tuple[Tensor, Tensor] | None = None,
    groups: tuple[Tensor, Tensor] | None = None,
    tile: int = TILE,
) -> Neighbors:
    """The k most similar gallery rows of each query, exactly.

    A query that is itself in the gallery is left out by its id, never by its similarity: a copy of the image
    with another id is a proper neighbour. Equal similarities are ordered by gallery row; bit-equal gallery
    vectors have equal similarities. Labels are unknown here; the pessimistic order, in which a wrong
    neighbour stands before a right one of equal similarity, is that of :func:`similis.retrieval.evaluate.evaluate`.

    Args:
        queries: (Q, D).
        gallery: (G, D); pass the same tensor to search a set in itself, with ``ids``. Pass the rows of
            :func:`similis.retrieval.similarity.as_gallery` to prepare them once for many searches.
        k: how many; where the gallery has fewer, the rest is -1 with similarity -inf.
        similarity: "cosine" or "dot".
        ids: ids of queries (Q,) and gallery (G,): equal ones never meet.
        groups: groups of queries (Q,) and gallery (G,): equal ones never meet; a negative group is none.
        tile: similarities held at once (a row of the gallery is the least); memory is proportional to it.

    Shapes: (Q, D), (G, D) -> index (Q, k), similarity (Q, k).

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> rows = torch.arange(3)
        >>> search(x, x, 1, ids=(rows, rows)).index.tolist()
        [[1], [0], [1]]
    """
    rows = gallery.vectors if isinstance(gallery, GalleryRows) else gallery
    _check(queries, rows, k, {"ids": ids, "groups": groups})
    wanted = to_comparable(queries, similarity)
    columns = gallery if isinstance(gallery, GalleryRows) else as_gallery(to_comparable(gallery, similarity))
    hidden = hidden_members(
        *(None if pair is None else (pair[0].to(wanted.device), pair[1].to(wanted.device)) for pair in (ids, groups))
    )
    index = torch.full((len(wanted), k), -1, dtype=torch.long, device=wanted.device)
    found = torch.full((len(wanted), k), NEVER, dtype=wanted.dtype, device=wanted.device)
    width = block_width(len(columns.vectors), tile)
    for rows in torch.split(torch.arange(len(wanted), device=wanted.device), tile_rows(width, tile)):
        values = places = rows  # until the first block
        for start, block in column_blocks(wanted[rows], columns, width):
            values, places = merge_top((values, places), hide(block, rows, hidden, start), start, k)
        found[rows, : values.shape[1]] = values
        index[rows, : values.shape[1]] = torch.where(values > NEVER, places, -1)
    return Neighbors(index, found)


def merge_top(best: tuple[Tensor, Tensor], tile: Tensor, start: int, k: int) -> tuple[Tensor, Tensor]:
    """:func:`top` of earlier blocks (t, k), which the first has none of, and of the block (t, w) from ``start`` on."""
    values, columns = top(tile, k)
    if not start:
        return values, columns
    values, order = torch.cat([best[0], values], dim=1).sort(dim=1, descending=True, stable=True)
    columns = torch.cat([best[1], columns + start], dim=1).gather(1, order)
    return values[:, :k], columns[:, :k]


def hide(tile: Tensor, rows: Tensor, hidden: tuple[Members, ...], start: int) -> Tensor:
    """The tile (t, w) of these queries and of the columns from ``start``, with -inf where a query may not look."""
    for some in hidden:
        own, columns, _ = some.cells(rows, start, tile.shape[1])
        tile[own, columns] = NEVER
    return tile


def top(tile: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row and their columns, falling; equal ones by rising column.

    Shapes: (t, G) -> (t, min(k, G)), (t, min(k, G)).

    Example:
        >>> top(torch.tensor([[1.0, 3.0, 3.0, 2.0]]), 2)[1].tolist()
        [[1, 2]]
    """
    if 4 * k >= tile.shape[1]:  # nearly all are wanted: one whole sort is quicker than picking and ordering them
        values, columns = tile.sort(dim=1, descending=True, stable=True)
        return values[:, :k], columns[:, :k]
    values, columns = _largest(tile, k + 1)
    torn = (values[:, k - 1] == values[:, k]) & (values[:, k] > NEVER)  # the cut runs through equal values
    values, columns = values[:, :k].contiguous(), columns[:, :k].contiguous()
    if torn.any():
        columns[torn] = _lowest_of_ties(tile[torn], values[torn, -1:], k)
        values[torn] = tile[torn].gather(1, columns[torn])
    columns, rising = columns.sort(dim=1)
    values, falling = values.gather(1, rising).sort(dim=1, descending=True, stable=True)
    return values, columns.gather(1, falling)


def _largest(tile: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """``topk``, for few of many by way of block maxima: the k largest lie in the k blocks with the largest maxima.

    A plain ``topk`` copies each row into pairs, which costs half of the matrix product itself.
    """
    width = tile.shape[1]
    size = int((width / k) ** 0.5)
    if size < 8:
        values, columns = tile.topk(k, dim=1)
        return values, columns
    blocks = width // size
    body = tile[:, : size * blocks].view(len(tile), size, blocks)  # block b holds the columns b, b + blocks, ...
    best = body.amax(dim=1).topk(k, dim=1).indices
    steps = torch.arange(size, device=tile.device) * blocks
    rest = torch.arange(size * blocks, width, device=tile.device).expand(len(tile), -1)
    columns = torch.cat([(best[:, :, None] + steps).flatten(1), rest], dim=1)
    values, places = tile.gather(1, columns).topk(k, dim=1)
    return values, columns.gather(1, places)


def _lowest_of_ties(tile: Tensor, edge: Tensor, k: int) -> Tensor:
    """Columns of all values above the edge (t, 1), filled up to k with the lowest columns at the edge."""
    width = tile.shape[1]
    falling = torch.arange(width, 0, -1, device=tile.device)
    key = torch.where(tile > edge, falling + width, torch.where(tile == edge, falling, 0))
    return key.topk(k, dim=1).indices


def _check(queries: Tensor, gallery: Tensor, k: int, pairs: dict[str, tuple[Tensor, Tensor] | None]) -> None:
    if queries.shape[1:] != gallery.shape[1:] or queries.dtype != gallery.dtype:
        raise UserError(
            f"queries {tuple(queries.shape)} of {queries.dtype} and a gallery {tuple(gallery.shape)} of "
            f"{gallery.dtype} given; both need the same dimension and type"
        )
    if k < 1 or k % 1:
        raise UserError(f"k={k} given; ask for 1 neighbour or more")
    for name, pair in pairs.items():
        if pair is not None and (len(pair[0]), len(pair[1])) != (len(queries), len(gallery)):
            raise UserError(
                f"{name} of lengths {len(pair[0])} and {len(pair[1])} given for {len(queries)} queries "
                f"and a gallery of {len(gallery)}; give one for each row"
            )
