"""An index that grows, shrinks and filters by label: codes to search, full vectors to score the best again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.retrieval.index_kinds import KINDS, Array, count_bytes, empty_handle, search_handle, vectors_of
from similis.retrieval.search import search
from similis.retrieval.similarity import Similarity, check_dot_range, to_comparable
from similis.values import Neighbors, UserError

FEW = 4096  # rows that a label leaves: so few are compared exactly, for a graph finds hardly any of them


class Index:
    """Vectors as codes that are searched, and in full precision to score the best candidates again.

    Attributes:
        ids: of all rows, removed ones too; :meth:`search` returns rows.
        kind: a key of ``KINDS``.
        effort: how thoroughly to search, one of the kind's ``efforts``.
        model_hash: of the model that made the vectors; "" if unknown.
        read_only: whether the vectors stay on the disk, memory-mapped.
    """

    def __init__(
        self,
        handle: Any,
        ids: Sequence[str],
        labels: Sequence[str | None],
        *,
        kind: str,
        effort: int,
        similarity: Similarity = "cosine",
        model_hash: str = "",
        removed: Sequence[int] = (),
        read_only: bool = False,
    ) -> None:
        self.handle, self.kind, self.effort, self.similarity = handle, kind, effort, similarity
        self.model_hash, self.read_only = model_hash, read_only
        self.ids: list[str] = []
        self.numbers: dict[str | None, int] = {None: 0}  # label -> its number
        self._labels = np.zeros(0, dtype=np.int32)
        self._rows: dict[str, int] = {}  # id -> row, without the removed ones
        self._note(ids, labels)
        for row in removed:
            if self._rows.get(ids[row]) == row:
                del self._rows[ids[row]]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return int(self.handle.d)

    @property
    def labels(self) -> list[str | None]:
        """The label of every row."""
        return [self._names[number] for number in self._labels]

    def entry(self, row: int) -> tuple[str, str | None]:
        """Id and label of a row."""
        return self.ids[row], self._names[self._labels[row]]

    @property
    def removed(self) -> list[int]:
        """Rows that are no longer found."""
        return sorted(set(range(len(self.ids))) - set(self._rows.values()))

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
        allowed = self._allowed_rows(labels)
        if allowed is not None and len(allowed) <= FEW:
            near = search(queries.float().cpu(), self.vectors(allowed), k, similarity=self.similarity)
            rows = torch.from_numpy(allowed)[near.index.clamp(min=0)] if len(allowed) else near.index
            return Neighbors(torch.where(near.index < 0, -1, rows), near.similarity)
        wanted = _array(to_comparable(queries, self.similarity))
        values, found = search_handle(self.handle, self.kind, self.effort, wanted, k, allowed=allowed)
        index = torch.from_numpy(found)
        return Neighbors(index, torch.where(index >= 0, torch.from_numpy(values), -torch.inf))

    def vectors(self, rows: Array) -> Tensor:
        """The vectors (n, D) of these rows as they are compared: of unit length for "cosine"."""
        return torch.from_numpy(vectors_of(self.handle, self.kind, rows)) if len(rows) else torch.empty(0, self.dim)

    def add(self, vectors: Tensor, ids: Sequence[str], labels: Sequence[str | None] | None = None) -> None:
        """Append vectors (n, D); a known id is replaced, and of one id given twice the last counts."""
        labels = [None] * len(ids) if labels is None else labels
        if vectors.shape != (len(ids), self.dim) or len(labels) != len(ids):
            raise UserError(
                f"vectors {tuple(vectors.shape)}, {len(ids)} ids and {len(labels)} labels given; "
                f"this index takes (n, {self.dim}) with an id and a label each"
            )
        self._check_writable()
        rows = _array(to_comparable(vectors, self.similarity))
        self.remove([name for name in ids if name in self._rows])
        self.handle.add(rows)
        self._note(ids, labels)

    def remove(self, ids: Sequence[str]) -> None:
        """Never find these ids again; unknown ones raise an error. Their space returns when you build a new index."""
        missing = [name for name in ids if name not in self._rows]
        if missing:
            raise UserError(f"{missing[0]!r} is not in the index, which holds {len(self)} ids; leave it out")
        self._check_writable()
        for name in dict.fromkeys(ids):  # an id given twice is removed once
            del self._rows[name]

    def memory(self) -> int:
        """Bytes that a search goes through: codes, graph and lists, without the vectors for scoring again."""
        return count_bytes(self.handle, self.kind)

    def _note(self, ids: Sequence[str], labels: Sequence[str | None]) -> None:
        codes = [self.numbers.setdefault(label, len(self.numbers)) for label in labels]
        self._labels, self._names = (
            np.concatenate([self._labels, np.asarray(codes, dtype=np.int32)]),
            list(self.numbers),
        )
        self._rows.update((name, row) for row, name in enumerate(ids, len(self.ids)))
        self.ids.extend(ids)

    def _allowed_rows(self, labels: Sequence[str] | None) -> Array | None:
        """Rows that may be found, rising; None for all."""
        if labels is None and len(self._rows) == len(self.ids):
            return None
        rows = np.sort(np.fromiter(self._rows.values(), dtype=np.int64, count=len(self._rows)))
        if labels is None:
            return rows
        wanted = [self.numbers[label] for label in labels if label in self.numbers]
        return rows[np.isin(self._labels[rows], wanted)]

    def _check_writable(self) -> None:
        if self.read_only:
            raise UserError("this index was opened memory-mapped, which is read-only; load it with memory_map=False")


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
    """Index the rows of a matrix.

    All kinds but "flat" score their candidates again with the full vectors, which may stay on the disk. When to use:
    "flat" is exact; "float16" and "int8" compare all rows with a half and a quarter of the bytes; "binary" keeps a
    rotated sign of each dimension (RaBitQ); "nested" is for models trained with nested sizes; "hnsw" and "ivf-pq"
    look at a part of the rows, for millions. :func:`similis.retrieval.index_choice.choose_index` measures which.

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
    handle = empty_handle(kind, *vectors.shape)
    rows = _array(to_comparable(vectors, similarity))
    handle.train(rows)
    handle.add(rows)
    efforts = KINDS[kind].efforts
    chosen = efforts[len(efforts) // 2] if effort is None else effort
    return Index(handle, ids, labels, kind=kind, effort=chosen, similarity=similarity, model_hash=model_hash)


def _array(vectors: Tensor) -> Array:
    """What faiss reads: contiguous float32 in memory."""
    return np.ascontiguousarray(check_dot_range(vectors.float()).cpu().numpy())
