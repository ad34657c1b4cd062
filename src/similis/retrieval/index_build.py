"""Codes of many vectors: trained on a sample, filled block by block, by one process or by several that are merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from similis.engine.executor import Executor
from similis.retrieval.index_kinds import (
    Array,
    empty_codes,
    merge_codes,
    read_codes,
    training_rows,
    write_codes,
)

BLOCK = 2**16  # vectors that are added at once


class RowFile(NamedTuple):
    """Vectors (N, D) in a file of float32 numbers; slices are read into memory, and nothing else is."""

    path: Path
    total: int
    dim: int

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        return self.total, self.dim

    def __getitem__(self, rows: Any) -> Any:
        start, stop, _ = rows.indices(self.total)
        read = np.fromfile(self.path, np.float32, (stop - start) * self.dim, offset=4 * start * self.dim)
        return read.reshape(stop - start, self.dim)


class ShardTask(NamedTuple):
    """Rows of a file to encode, the trained codes, and where the shard goes."""

    rows: RowFile
    start: int
    stop: int
    trained: Path
    shard: Path


def take_rows(vectors: Any, rows: Array) -> Array:
    """Some rows (n, D) of an array or a file, in rising order, by one pass through it."""
    parts = [np.empty((0, vectors.shape[1]), np.float32)]
    for start in range(0, vectors.shape[0], BLOCK):
        here = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + BLOCK)]
        if len(here):
            parts.append(vectors[start : start + BLOCK][here - start])
    return np.concatenate(parts)


def draw_rows(count: int, most: int, seed: int = 0) -> Array:
    """At most so many different rows, in rising order."""
    return np.sort(np.random.default_rng(seed).choice(count, min(count, most), replace=False))


def build_codes(kind: str, vectors: Any, executor: Executor | None = None, scratch: Path | None = None) -> Any:
    """Codes of vectors (N, D), an array or a :class:`RowFile`; None for "flat".

    Args:
        kind: a key of ``KINDS``.
        vectors: as they are compared.
        executor: of the processes or Ray tasks that encode shards of a file; None for this process.
        scratch: folder that all of them see, for the shards.
    """
    codes = empty_codes(kind, *vectors.shape)
    if codes is None:
        return None
    codes.train(take_rows(vectors, draw_rows(vectors.shape[0], training_rows(codes))))
    shards = 1 if executor is None else executor.workers or 1
    if shards == 1 or kind == "hnsw" or scratch is None or not isinstance(vectors, RowFile):
        fill(codes, vectors, 0, vectors.shape[0])
        return codes
    write_codes(codes, trained := scratch / "trained.faiss")
    edges = np.linspace(0, vectors.total, shards + 1).astype(int).tolist()
    names = [scratch / f"shard-{number}.faiss" for number in range(shards)]
    ranges = zip(edges[:-1], edges[1:], names, strict=True)
    assert executor is not None
    executor.map(encode_shard, [ShardTask(vectors, start, stop, trained, name) for start, stop, name in ranges])
    for name in names:
        merge_codes(codes, read_codes(name, memory_map=False))
        name.unlink()
    trained.unlink()
    return codes


def encode_shard(task: ShardTask) -> None:
    """Fill trained codes with the rows of a shard."""
    codes = read_codes(task.trained, memory_map=False)
    fill(codes, task.rows, task.start, task.stop)
    write_codes(codes, task.shard)


def fill(codes: Any, vectors: Any, start: int, stop: int) -> None:
    """Add rows block by block."""
    for first in range(start, stop, BLOCK):
        codes.add(np.ascontiguousarray(vectors[first : min(first + BLOCK, stop)]))
