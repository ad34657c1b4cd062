"""Re-ranking of the neighbours, as scores of a tile of queries, in memory of one tile and O(N k)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from similis.registry import unknown
from similis.retrieval.search import members, search
from similis.retrieval.similarity import GalleryRows, as_gallery, column_blocks, similarities, tile_rows
from similis.sphere import unit
from similis.values import UserError

RERANKERS = ("alpha-qe", "k-reciprocal")
Score = Callable[[Tensor], Tensor]  # numbers of queries (t,) -> similarities (t, G)
Blocks = Callable[[Tensor, int], Iterable[tuple[int, Tensor]]]  # and columns of a block -> first column, (t, w)
Keys = tuple[Tensor, Tensor]
STEP = 256  # rows whose neighbourhoods are compared at once


def score_queries(rerank: str, queries: Tensor, gallery: GalleryRows, ids: Keys, groups: Keys | None) -> Blocks:
    """How a tile of queries is compared with the gallery; k-reciprocal re-ranking always gives one block.

    Args:
        rerank: "" for plain similarities, or one of ``RERANKERS`` with its published settings.
        queries: (Q, D), comparable.
        gallery: (G, D), comparable.
        ids: of queries and gallery.
        groups: of queries and gallery; query expansion keeps them apart.
    """
    if rerank == "k-reciprocal":
        whole = k_reciprocal(queries, gallery, ids)
        return lambda rows, _width: [(0, whole(rows))]
    if rerank == "alpha-qe":
        queries = expand_queries(queries, gallery, ids, groups)
    elif rerank:
        raise UserError(unknown("re-ranking", rerank, RERANKERS))
    return lambda rows, width: column_blocks(queries[rows], gallery, width)


def expand_queries(
    queries: Tensor, gallery: GalleryRows, ids: Keys, groups: Keys | None, *, neighbors: int = 10, alpha: float = 3.0
) -> Tensor:
    """Alpha query expansion: each query plus its nearest neighbours, weighted by similarity to the power alpha.

    Args:
        queries: (Q, D) of unit length.
        gallery: (G, D) of unit length.
        ids: of queries and gallery: equal ones never meet.
        groups: as ids; a negative group is none.
        neighbors: how many are added; negative similarities count as 0.
        alpha: 0 weights all equally; larger values trust the nearest.

    Reference: Radenovic, Tolias, Chum: Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019.

    Example:
        >>> ids = (torch.tensor([0]), torch.tensor([1]))
        >>> expand_queries(torch.tensor([[1.0, 0.0]]), as_gallery(torch.tensor([[0.6, 0.8]])), ids, None, alpha=0.0)
        tensor([[0.8944, 0.4472]])
    """
    near = search(queries, gallery, neighbors, similarity="dot", ids=ids, groups=groups)
    weights = torch.where(near.index < 0, 0, near.similarity.clamp(min=0) ** alpha)
    total = queries.clone()
    for place in range(neighbors):
        total += weights[:, place, None] * gallery.vectors[near.index[:, place].clamp(min=0)]
    return unit(total)


class Encoded(NamedTuple):
    """Sparse vectors of neighbourhoods, row by row: starts (N + 1,), columns and weights (P,)."""

    start: Tensor
    columns: Tensor
    weights: Tensor

    def entries(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """For the entries of these rows (t,): which of the t they belong to, and where they stand."""
        sizes = self.start[rows + 1] - self.start[rows]
        owner = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), sizes)
        step = torch.arange(len(owner), device=rows.device) - (sizes.cumsum(0) - sizes)[owner]
        return owner, self.start[rows][owner] + step


def k_reciprocal(
    queries: Tensor, gallery: GalleryRows, ids: Keys, *, k1: int = 20, k2: int = 6, original: float = 0.3
) -> Score:
    """k-reciprocal re-ranking: one minus a mixture of the Jaccard distance of neighbourhoods and the plain distance.

    The plain distance is ``1 - cosine``, divided by its largest value for each row as in the authors' code. A query
    whose id is in the gallery is that gallery row. Gallery and other queries are searched among themselves.

    Args:
        queries: (Q, D) of unit length.
        gallery: (G, D) of unit length.
        ids: of queries and gallery.
        k1: neighbours that may be reciprocal.
        k2: neighbourhoods that are averaged, the own one included.
        original: weight of the plain distance.

    Cost: one search of all N rows among themselves, another for the farthest row, and memory O(N k1 k2).

    Reference: Zhong, Zheng, Cao, Li: Re-ranking Person Re-identification with k-reciprocal Encoding, CVPR 2017.
    """
    known = members(*ids)
    alone = known.sizes == 0
    everything = as_gallery(torch.cat([gallery.vectors, queries[alone]]))
    place = torch.where(alone, len(gallery.vectors) - 1 + alone.cumsum(0), 0)
    place[~alone] = known.order[known.start[~alone]]
    x, own = everything.vectors, torch.arange(len(everything.vectors), device=queries.device)
    near = search(x, everything, min(k1, len(x) - 1), similarity="dot", ids=(own, own)).index
    lists = torch.cat([own[:, None], near], dim=1)
    farthest = (1 + search(-x, everything, 1, similarity="dot").similarity[:, 0]).clamp(min=1e-12)
    encoded = average(encode(x, lists, farthest), lists[:, :k2])
    inverted = invert(encoded, len(gallery.vectors))

    def score(rows: Tensor) -> Tensor:
        shared = queries.new_zeros((len(rows), len(gallery.vectors)))
        for part, tile in zip(torch.split(place[rows], STEP), torch.split(shared, STEP), strict=True):
            owner, entries = encoded.entries(part)
            entry, cell = inverted.entries(encoded.columns[entries])
            least = torch.minimum(encoded.weights[entries][entry], inverted.weights[cell])
            tile.view(-1).index_add_(0, owner[entry] * tile.shape[1] + inverted.columns[cell], least)
        jaccard = 1 - shared / (2 - shared)
        plain = (1 - similarities(queries[rows], gallery)).clamp(min=0) / farthest[place[rows], None]
        return 1 - (1 - original) * jaccard - original * plain

    return score


def encode(x: Tensor, lists: Tensor, farthest: Tensor) -> Encoded:
    """Expanded k-reciprocal neighbours of each row with weights exp(-distance), of sum one."""
    width = lists.shape[1]
    half = round((width - 1) / 2) + 1
    whole, small = reciprocal(lists, width), reciprocal(lists, half)
    rows, columns = [], []
    for part in torch.split(torch.arange(len(lists), device=lists.device), tile_rows(half * width**2, 2**24)):
        own = torch.where(whole[part], lists[part], -1)  # (t, w)
        candidates = torch.where(small, lists[:, :half], -2)[own.clamp(min=0)]  # (t, w, h)
        common = (candidates[..., None] == own[:, None, None, :]).any(dim=-1).sum(dim=-1)
        joins = (own >= 0) & (3 * common > 2 * (candidates >= 0).sum(dim=-1))
        joined = torch.where(joins[..., None], candidates, -1).flatten(1)
        kept = torch.cat([own, joined], dim=1).sort(dim=1).values
        fresh = (kept >= 0) & torch.nn.functional.pad(kept[:, 1:] != kept[:, :-1], (1, 0), value=True)
        rows.append(part[fresh.nonzero()[:, 0]])
        columns.append(kept[fresh])
    row, column = torch.cat(rows), torch.cat(columns)
    step = tile_rows(x.shape[1], 2**24)
    pairs = zip(torch.split(row, step), torch.split(column, step), strict=True)
    distance = torch.cat([1 - (x[a] * x[b]).sum(dim=1) for a, b in pairs]).clamp(min=0) / farthest[row]
    weights = (-distance).exp()
    weights /= torch.zeros_like(farthest).index_add_(0, row, weights)[row]
    return compress(row, column, weights, len(x))


def reciprocal(lists: Tensor, width: int) -> Tensor:
    """Which of the first neighbours (N, w) of each row have the row among their own."""
    short = lists[:, :width]
    parts = torch.split(short, tile_rows(width**2, 2**24))
    return torch.cat([(short[part] == part[:, :1, None]).any(dim=-1) for part in parts])


def average(encoded: Encoded, lists: Tensor) -> Encoded:
    """The mean of the sparse vectors of the rows in each list (N, k2)."""
    count, size = lists.shape
    keys, weights = [], []
    for first, part in zip(range(0, count, STEP), torch.split(lists, STEP), strict=True):
        owner, cell = encoded.entries(part.flatten())
        pairs = (owner // size + first) * count + encoded.columns[cell]
        key, place = torch.unique(pairs, return_inverse=True)
        keys.append(key)
        weights.append(encoded.weights.new_zeros(len(key)).index_add_(0, place, encoded.weights[cell] / size))
    key = torch.cat(keys)
    return compress(key // count, key % count, torch.cat(weights), count)


def compress(rows: Tensor, columns: Tensor, weights: Tensor, count: int) -> Encoded:
    """Entries with rising rows as :class:`Encoded`."""
    start = torch.searchsorted(rows.contiguous(), torch.arange(count + 1, device=rows.device))
    return Encoded(start, columns, weights)


def invert(encoded: Encoded, count: int) -> Encoded:
    """For each column the rows below ``count`` that have it."""
    total = len(encoded.start) - 1
    rows = torch.repeat_interleave(torch.arange(total, device=encoded.start.device), encoded.start.diff())
    kept = rows < count
    columns, order = encoded.columns[kept].sort(stable=True)
    return compress(columns, rows[kept][order], encoded.weights[kept][order], total)
