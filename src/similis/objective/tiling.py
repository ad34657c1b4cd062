"""When a comparison is computed in tiles, and how large they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from similis.objective.within import within

DENSE_LIMIT = 2**19  # pairs, about 724 x 724: above, tiles measured faster (twice at 2048 x 2048) and smaller
DENSE_DEPTH = 16  # a product of 10 vectors a class is so dear that making it again in tiles costs more than it saves
TILE_SIZE = 2**18  # numbers of a tile: a megabyte, so that a few of them stay in a second cache
TILE_COLUMNS = 1024


@dataclass(frozen=True)
class Tiling:
    """Rows and columns of a tile; None as a tiling means one dense matrix."""

    rows: int
    columns: int

    def shared(self, depth: int) -> Tiling:
        """Smaller tiles of the same size in numbers, where a loss makes ``depth`` numbers of each similarity."""
        if depth <= 1:
            return self
        side = max(1, round(depth**0.5))
        return Tiling(max(1, self.rows // side), max(1, self.columns * side // depth))


_chosen: ContextVar[Tiling | str | None] = ContextVar("tiling", default="rule")


def tiling_of(rows: int, columns: int, depth: int = 1) -> Tiling | None:
    """The tiling of a comparison: none up to ``DENSE_LIMIT`` pairs or inside a compiled graph.

    A pair of more than ``DENSE_DEPTH`` numbers counts as several.

    Args:
        rows: number of rows.
        columns: number of columns of all blocks.
        depth: numbers behind one similarity (vectors of a class, positives of an anchor).
    """
    if torch.compiler.is_compiling():
        return None
    chosen = _chosen.get()
    if not isinstance(chosen, str):
        return chosen
    if rows * columns * max(depth, DENSE_DEPTH) <= DENSE_LIMIT * DENSE_DEPTH:
        return None
    wide = max(1, min(columns, TILE_COLUMNS // depth))
    return Tiling(max(1, min(rows, TILE_SIZE // (wide * depth))), wide)


def tiling_of_passed() -> Tiling | None:
    """The tiling where columns are passed round: it must be the same in all processes, whatever rows they have."""
    chosen = _chosen.get()
    return Tiling(TILE_SIZE // TILE_COLUMNS, TILE_COLUMNS) if isinstance(chosen, str) else chosen


def streams() -> bool:
    """Whether computing in tiles is allowed here: not inside a compiled graph and not under :func:`dense`."""
    return not torch.compiler.is_compiling() and _chosen.get() is not None


@contextmanager
def tiles(rows: int, columns: int) -> Iterator[None]:
    """Compute every loss inside in tiles of this size.

    Example:
        >>> from similis.objective.tiling import tiles
        >>> with tiles(64, 128):
        ...     pass
    """
    with within(_chosen, Tiling(rows, columns)):
        yield


@contextmanager
def dense() -> Iterator[None]:
    """Compute every loss inside as one dense matrix."""
    with within(_chosen, None):
        yield
