"""When a comparison is computed in tiles, and how large they are."""

from __future__ import annotations

from similis.objective.context import Tiling, current_context

DENSE_LIMIT = 2**19  # pairs, about 724 x 724: above, tiles measured faster (twice at 2048 x 2048) and smaller
DENSE_DEPTH = 16  # a product of 10 vectors a class is so dear that making it again in tiles costs more than it saves
TILE_SIZE = 2**18  # numbers of a tile: a megabyte, so that a few of them stay in a second cache
TILE_COLUMNS = 1024


def choose_tiling(rows: int, columns: int, depth: int = 1) -> Tiling | None:
    """The tiling of a comparison: none up to ``DENSE_LIMIT`` pairs or inside a compiled graph.

    A pair of more than ``DENSE_DEPTH`` numbers counts as several.

    Args:
        rows: number of rows.
        columns: number of columns of all blocks.
        depth: numbers behind one similarity (vectors of a class, positives of an anchor).
    """
    chosen = current_context().tiling
    if chosen != "auto":
        return chosen
    if rows * columns * max(depth, DENSE_DEPTH) <= DENSE_LIMIT * DENSE_DEPTH:
        return None
    wide = max(1, min(columns, TILE_COLUMNS // depth))
    return Tiling(max(1, min(rows, TILE_SIZE // (wide * depth))), wide)


def ring_tiling() -> Tiling | None:
    """The tiling of a ring exchange: it must be the same on all ranks, whatever rows they have."""
    chosen = current_context().tiling
    return Tiling(TILE_SIZE // TILE_COLUMNS, TILE_COLUMNS) if chosen == "auto" else chosen
