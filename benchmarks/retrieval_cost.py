"""What an index costs, as arithmetic: the functions behind the table in ``docs/retrieval.md``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

RECORD = Path(__file__).parents[1] / "results" / "millions.json"
LINKS = 4 * (2 * 32 + 4)  # of a node of the graph: 32 links up and 64 on the ground level, offsets and level
ARRAYS = 1 / np.log(2)  # of an array that doubles when it is full, on average over its lengths


def list_count(count: int) -> int:
    """Lists of an index of so many vectors."""
    return max(1, min(int(4 * count**0.5), 4096, count // 39))


def index_bytes(kind: str, count: int, dim: int) -> int:
    """Bytes that a search goes through."""
    lists = list_count(count)
    return {
        "flat": 4 * dim * count,
        "float16": 2 * dim * count,
        "int8": dim * count,
        "nested": -(-dim // 4) * count,
        "binary": (dim // 8 + 8) * count + 4 * dim * dim,  # signs, two factors; the rotation
        "hnsw": (dim + LINKS) * count,
        "ivf-int8": (dim + 8) * count + 4 * dim * lists,  # a byte a dimension, a row number; centroids
        "ivf-pq": (dim // 8 + 8) * count + 4 * dim * lists,  # half a byte for four dimensions, a row number; centroids
    }[kind]


class BuildCost(NamedTuple):
    """Hours of one core, bytes of memory and bytes on the disk that ``similis index --kind ivf-int8`` takes."""

    processor_hours: float
    memory: float
    disk: float


def build_cost(count: int, dim: int = 128) -> BuildCost:
    """What an index of so many vectors costs, from the runs with 100,000 and a million in ``results/millions.json``.

    Time is the sum of the parts of the run with a million, each scaled by what it grows with (``growth``), in
    proportion to the dimensions; measured at 128. Memory is the codes in arrays that double as they grow, a constant,
    and the training sample some times over.
    """
    sizes = (100_000, 1_000_000)
    small, large = (json.loads(RECORD.read_text())["figures"][f"build {size}"] for size in sizes)
    parts = {part: large[f"ours, {part}, processor s"] for part in growth(1)}
    seconds = large["ours, processor s"] - sum(parts.values())
    seconds += sum(parts[part] * now / growth(sizes[1])[part] for part, now in growth(count).items())
    own = [1e6 * row["ours, peak without file pages, MB"] - ARRAYS * index_bytes("ivf-int8", size, 128)
           for size, row in zip(sizes, (small, large), strict=True)]  # fmt: skip
    rest = np.linalg.solve([(1.0, training_bytes(size, 128)) for size in sizes], own)
    codes = index_bytes("ivf-int8", count, dim)
    memory = ARRAYS * codes + rest @ (1.0, training_bytes(count, dim))
    return BuildCost(dim / 128 * seconds / 3600, float(memory), codes + 4.0 * dim * count + 40.0 * count)


def growth(count: int) -> dict[str, float]:
    """What the time of each part grows with; the sample that kinds are tried on has one size."""
    lists = list_count(count)
    return {"lay out": count, "exact search": count, "sample": 1, "train": training_bytes(count, 128) * lists,
            "fill": count * lists, "search": count / lists}  # fmt: skip


def training_bytes(count: int, dim: int) -> float:
    """Bytes of the vectors that lists are trained on."""
    return 4.0 * dim * min(count, max(100_000, 50 * list_count(count)))
