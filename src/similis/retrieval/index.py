"""An index: codes to search, and full vectors, which may stay on the disk, to score the best again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.retrieval.index_build import RowFile, build_codes
from similis.retrieval.index_kinds import KINDS, Array, count_bytes, nearest_rows, search_codes
from similis.retrieval.similarity import Similarity, check_dot_range, to_comparable
from similis.values import Neighbors, UserError

FEW = 4096  # rows that a label leaves: so few are compared exactly, for a graph finds hardly any of them
BLOCK = 2**18  # vectors compared exactly at once
SCORED = 2**22  # coordinates of candidates scored again at once


class Index:
    """Vectors as codes that are searched, and in full precision to score the best candidates again.

    An index does not change: to add or remove vectors, build it again (``similis embed`` computes only what is new), or
    use a vector database.

    Attributes:
        codes: of faiss; None for "flat".
        stored: (N, D) float32 as they are compared, in memory or memory-mapped.
        ids: of all rows; :meth:`search` returns rows.
        numbers: (N,) of the label of each row.
        names: the label of each number.
        kind: a key of ``KINDS``.
        effort: how thoroughly to search, one of the kind's ``efforts``.
        model_hash: of the model that made the vectors; "" if unknown.
    """

    def __init__(
        self,
        codes: Any,
        stored: Tensor,
        ids: Sequence[str],
        numbers: Array,
        names: Sequence[str | None],
        *,
        kind: str,
        effort: int,
        similarity: Similarity = "cosine",
        model_hash: str = "",
    ) -> None:
        self.codes, self.stored, self.ids, self.numbers, self.names = codes, stored, ids, numbers, list(names)
        self.kind, self.effort, self.similarity, self.model_hash = kind, effort, similarity, model_hash
        self._known = {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return int(self.stored.shape[1])

    def entry(self, row: int) -> tuple[str, str | None]:
        """Id and label of a row."""
        return self.ids[int(row)], self.names[self.numbers[int(row)]]

    def row_of(self, id: str) -> int | None:
        """The row of an id, looked for among all; None if it is not there."""
        return self.ids.index(id) if id in self.ids else None

    def search(self, queries: Tensor, k: int, labels: Sequence[str] | None = None) -> Neighbors:
        """The k nearest rows (Q, k) that the index finds, falling; -1 and -inf where it finds fewer.

        Args:
            queries: (Q, D).
            k: how many.
            labels: look among rows with one of these labels only; few rows are compared exactly.
        """
        if k < 1 or queries.ndim != 2 or queries.shape[1] != self.dim:
            raise UserError(
                f"k={k} and queries {tuple(queries.shape)} given; k is 1 or more and queries are (Q, {self.dim})"
            )
        wanted, rows = _array(to_comparable(queries, self.similarity)), None
        if labels is not None:
            rows = np.flatnonzero(np.isin(self.numbers, [self._known[one] for one in labels if one in self._known]))
        if self.codes is None or (rows is not None and len(rows) <= FEW):
            return search_exactly(wanted, self.stored.numpy(), k, rows)
        found = search_codes(self.codes, self.kind, self.effort, wanted, k, allowed=rows)
        return score_again(torch.from_numpy(wanted), self.stored, torch.from_numpy(found), k)

    def memory(self) -> int:
        """Bytes that a search goes through: codes, graph and lists, without the vectors for scoring again."""
        return 4 * self.stored.numel() if self.codes is None else count_bytes(self.codes)


def as_rows(vectors: Any) -> Tensor:
    """Rows of an array, or of a file that is then memory-mapped, as a tensor."""
    if isinstance(vectors, RowFile):
        vectors = np.memmap(vectors.path, np.float32, mode="c", shape=vectors.shape)
    return torch.from_numpy(vectors)


def search_exactly(queries: Array, vectors: Any, k: int, rows: Array | None = None) -> Neighbors:
    """The k nearest rows (Q, k) by inner products, in blocks; of these ``rows`` alone, if given.

    ``vectors`` is an array (N, D), or anything with ``shape`` whose slices are arrays.
    """
    count = vectors.shape[0] if rows is None else len(rows)
    shape = len(queries), k
    best = Neighbors(torch.full(shape, -1, device="cpu"), torch.full(shape, -torch.inf, device="cpu"))
    for start in range(0, count, BLOCK):
        part = slice(start, min(start + BLOCK, count))
        values, near = nearest_rows(
            queries, vectors[part] if rows is None else vectors[rows[part]], min(k, part.stop - start)
        )
        found = torch.from_numpy(near + start if rows is None else rows[near + start])
        joined, places = torch.cat([best.similarity, torch.from_numpy(values)], 1).sort(
            dim=1, descending=True, stable=True
        )
        best = Neighbors(torch.cat([best.index, found], 1).gather(1, places[:, :k]), joined[:, :k])
    return best


def score_again(queries: Tensor, stored: Tensor, found: Tensor, k: int) -> Neighbors:
    """The k best (Q, k) of candidates (Q, C) by their full vectors; -1 and -inf where there are fewer."""
    rows = max(1, SCORED // (found.shape[1] * stored.shape[1]))
    values = torch.cat([
        torch.bmm(stored[part.clamp(min=0)], some[:, :, None])[:, :, 0]
        for part, some in zip(torch.split(found, rows), torch.split(queries, rows), strict=True)
    ])  # fmt: skip
    best = values.masked_fill_(found < 0, -torch.inf).topk(min(k, found.shape[1]), dim=1)
    return Neighbors(found.gather(1, best.indices), best.values)


def number_labels(labels: Sequence[str | None], known: dict[str | None, int]) -> Array:
    """The number of each label; new ones get the next numbers in ``known``."""
    return np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.int32)


def build_index(
    vectors: Tensor,
    ids: Sequence[str] | None = None,
    labels: Sequence[str | None] | None = None,
    *,
    kind: str = "flat",
    effort: int | None = None,
    similarity: Similarity = "cosine",
    model_hash: str = "",
) -> Index:
    """Index the rows of a matrix in memory; ``similis index`` does it for more vectors than fit there.

    All kinds but "flat" score their candidates again with the full vectors, which may stay on the disk. When to use:
    "flat" is exact; "float16" and "int8" compare all rows with a half and a quarter of the bytes; "binary" keeps a
    rotated sign of each dimension (RaBitQ); "nested" is for models trained with nested sizes; "hnsw" and "ivf-pq"
    look at a part of the rows, for millions. ``similis index`` measures which.

    Args:
        vectors: (N, D); float32 inside.
        ids: (N,) unique; None for row numbers.
        labels: (N,) for searches among some labels.
        kind: a key of ``KINDS``.
        effort: how thoroughly to search; None for the middle of the kind's ladder. May be changed later.
        similarity: "cosine" or "dot".
        model_hash: of the model that made the vectors.

    References:
        Johnson, Douze, Jegou: Billion-scale similarity search with GPUs, 2017 (faiss).
        Malkov, Yashunin: Efficient and robust approximate nearest neighbor search using HNSW graphs, 2016.
        Gao, Long: RaBitQ, SIGMOD 2024.

    Example:
        >>> index = build_index(torch.eye(3), ["a", "b", "c"])
        >>> rows = index.search(torch.tensor([[0.0, 2.0, 0.1]]), 2).index[0]
        >>> [index.ids[row] for row in rows]
        ['b', 'c']
    """
    ids = [str(row) for row in range(len(vectors))] if ids is None else ids
    labels = [None] * len(ids) if labels is None else labels
    if not len(vectors) == len(ids) == len(labels) == len(set(ids)):
        raise UserError(
            f"{len(vectors)} vectors, {len(ids)} ids ({len(set(ids))} different) and {len(labels)} labels given; "
            "give a unique id and a label for each vector"
        )
    rows, known = _array(to_comparable(vectors, similarity)), dict[str | None, int]()
    codes, numbers, efforts = build_codes(kind, rows), number_labels(labels, known), KINDS[kind].efforts
    chosen = efforts[len(efforts) // 2] if effort is None else effort
    return Index(
        codes, torch.from_numpy(rows), list(ids), numbers, list(known), kind=kind, effort=chosen, similarity=similarity,
        model_hash=model_hash,
    )  # fmt: skip


def _array(vectors: Tensor) -> Array:
    """What faiss reads: contiguous float32 in memory."""
    return np.ascontiguousarray(check_dot_range(vectors.float()).cpu().numpy())
