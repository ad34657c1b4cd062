"""Approximate and compact search for serving: the only door to faiss. Evaluation never needs it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from similis.registry import unknown
from similis.retrieval.similarity import Similarity, check_dot_range, to_comparable
from similis.values import DataError, Neighbors, UserError, import_extra

Kind = Literal["flat", "ivf-pq", "hnsw"]
KINDS = ("flat", "ivf-pq", "hnsw")
TRAINING_ROWS = 256 * 39  # the codebooks have 256 entries; fewer rows than 39 for each are called too few by faiss


@dataclass(frozen=True)
class Index:
    """A faiss index of inner products with the similarity that its vectors were made for."""

    handle: Any
    similarity: Similarity = "cosine"

    def __len__(self) -> int:
        return int(self.handle.ntotal)

    def search(self, queries: Tensor, k: int) -> Neighbors:
        """The k nearest rows (Q, k) that the index finds, falling; -1 and -inf where it finds fewer."""
        if k < 1 or queries.ndim != 2 or queries.shape[1] != self.handle.d:
            raise UserError(
                f"k={k} and queries {tuple(queries.shape)} given; k is 1 or more and queries are (Q, {self.handle.d})"
            )
        values, rows = self.handle.search(_array(to_comparable(queries, self.similarity)), k)
        index = torch.from_numpy(rows)
        return Neighbors(index, torch.where(index >= 0, torch.from_numpy(values), -torch.inf))

    def save(self, path: str | Path) -> None:
        """Write the index; the file appears whole or not at all."""
        faiss, target = import_extra("faiss"), Path(path)
        draft = target.with_name(f"{target.name}.{os.getpid()}.part")
        faiss.write_index(self.handle, str(draft))
        draft.replace(target)


def build_index(
    vectors: Tensor,
    *,
    kind: Kind = "flat",
    similarity: Similarity = "cosine",
    lists: int | None = None,
    probes: int = 16,
    code_bytes: int | None = None,
    links: int = 32,
    breadth: int = 64,
) -> Index:
    """Index the rows of a matrix.

    When to use: "flat" is exact, up to about a million rows; "hnsw" is quick and needs the vectors and their
    links in memory; "ivf-pq" keeps ``code_bytes`` for each row, for ten millions and more, and wants its best
    results scored again with the true vectors.

    Args:
        vectors: (N, D); float32 inside.
        kind: "flat", "ivf-pq" or "hnsw".
        similarity: "cosine" or "dot".
        lists: ivf-pq: number of lists; None for 4 sqrt(N), fewer if they would hold under 39 rows each.
        probes: ivf-pq: lists looked into for each query.
        code_bytes: ivf-pq: bytes for each vector, a divisor of D; None for the largest divisor up to D / 4.
        links: hnsw: neighbours of each node.
        breadth: hnsw: candidates kept open in building and search.

    Example:
        >>> index = build_index(torch.eye(3))
        >>> index.search(torch.tensor([[0.0, 2.0, 0.1]]), 2).index.tolist()
        [[1, 2]]
    """
    faiss = import_extra("faiss")
    rows = _array(to_comparable(vectors, similarity))
    count, dim = rows.shape
    if kind == "flat":
        handle = faiss.IndexFlatIP(dim)
    elif kind == "hnsw":
        handle = faiss.IndexHNSWFlat(dim, links, faiss.METRIC_INNER_PRODUCT)
        handle.hnsw.efConstruction = handle.hnsw.efSearch = breadth
    elif kind == "ivf-pq":
        handle = _ivf_pq(faiss, rows, lists or max(1, min(int(4 * count**0.5), count // 39)), code_bytes)
        handle.nprobe = probes
    else:
        raise UserError(unknown("index", kind, list(KINDS)))
    handle.add(rows)
    return Index(handle, similarity)


def load_index(path: str | Path, *, similarity: Similarity = "cosine") -> Index:
    """Read an index that :meth:`Index.save` wrote. Open only files that you trust: faiss does not guard itself."""
    faiss = import_extra("faiss")
    if not Path(path).is_file():
        raise DataError(f"no index at {path}; build one and save it there first")
    return Index(faiss.read_index(str(path)), similarity)


def _ivf_pq(faiss: ModuleType, rows: np.ndarray[Any, Any], lists: int, code_bytes: int | None) -> Any:
    """A trained, empty index of residual codes in inverted lists."""
    count, dim = rows.shape
    if count < TRAINING_ROWS:
        raise UserError(
            f"{count} vectors given; the codebooks of ivf-pq want {TRAINING_ROWS} or more: use kind='flat' or 'hnsw'"
        )
    size = code_bytes or next(part for part in range(max(1, dim // 4), 0, -1) if dim % part == 0)
    if dim % size:
        raise UserError(f"code_bytes={size} given for {dim} dimensions; it has to divide them")
    # "np": without the polysemous codes, a filter that is not used here and costs most of the training
    index = faiss.index_factory(dim, f"IVF{lists},PQ{size}np", faiss.METRIC_INNER_PRODUCT)
    index.train(rows)
    return index


def _array(vectors: Tensor) -> np.ndarray[Any, Any]:
    """What faiss reads: contiguous float32 in memory."""
    return np.ascontiguousarray(check_dot_range(vectors.float()).cpu().numpy())
