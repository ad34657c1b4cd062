"""What an index costs, as arithmetic: the functions behind the table in ``docs/retrieval.md``."""

from __future__ import annotations

LINKS = 4 * (2 * 32 + 4)  # of a node of the graph: 32 links up and 64 on the ground level, offsets and level


def index_bytes(kind: str, count: int, dim: int) -> int:
    """Bytes that a search goes through."""
    lists = max(1, min(int(4 * count**0.5), count // 39))
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
