"""Vectors made comparable, and tiles of their similarities in which equal vectors are exactly equal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from similis.registry import check_known
from similis.sphere import unit, widen
from similis.values import DivergedError, UserError

Similarity = Literal["cosine", "dot"]
TILE = 2**24  # similarities held at once: 64 MB in float32
ROWS = 128  # queries of a tile at least: with 16 a matrix product takes four times as long for each


class GalleryRows(NamedTuple):
    """Comparable vectors (G, D); the rows that repeat an earlier row, and that earlier row (T,)."""

    vectors: Tensor
    repeats: Tensor
    originals: Tensor


def to_comparable(vectors: Tensor, similarity: Similarity = "cosine") -> Tensor:
    """Vectors whose inner products are the similarity named, in at least float32.

    Args:
        vectors: (N, D) of floating point, finite.
        similarity: "cosine" divides each row by its norm (zeros and unit vectors stay as they are); "dot" leaves it as
            it is, and refuses lengths whose products leave the range of the type.

    Example:
        >>> to_comparable(torch.tensor([[3.0, 4.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """
    check_known("similarity", similarity, get_args(Similarity))
    if vectors.ndim != 2 or not vectors.is_floating_point():
        raise UserError(
            f"vectors of shape {tuple(vectors.shape)} and {vectors.dtype} given; a matrix (N, D) of floats is needed"
        )
    wide = check_finite(widen(vectors.detach()))
    return check_dot_range(wide.contiguous()) if similarity == "dot" else _unit_rows(wide)


def check_finite(vectors: Tensor) -> Tensor:
    """Vectors (N, D) as given; NaN and infinity raise an error."""
    broken = torch.cat([~part.isfinite().all(dim=1) for part in _parts(vectors)])
    if broken.any():
        raise DivergedError(
            f"{int(broken.sum())} of {len(vectors)} vectors are not finite, first in row {int(broken.nonzero()[0])}; "
            "NaN cannot be ranked; check the values of the loss, the learning rate and the model"
        )
    return vectors


def _parts(vectors: Tensor) -> tuple[Tensor, ...]:
    """Rows (n, D) of at most a quarter of a tile, for steps that need memory for each coordinate."""
    return torch.split(vectors, max(1, TILE // max(1, 4 * vectors.shape[1])))


def _unit_rows(vectors: Tensor) -> Tensor:
    """Unit vectors; a row that is one already keeps its bits, and if all are, nothing is copied."""
    norms = torch.cat([torch.linalg.vector_norm(part, dim=1, keepdim=True) for part in _parts(vectors)])
    kept = (norms - 1).abs() <= 4 * torch.finfo(vectors.dtype).eps
    if vectors.is_cpu and bool(kept.all()):  # a copy of a million vectors would be half a gigabyte
        return vectors.contiguous()
    divided = unit(vectors)
    return torch.where(kept, vectors, divided, out=divided)


def check_dot_range(vectors: Tensor) -> Tensor:
    """Vectors as given; refused if their inner products would overflow, or all of them be lost in underflow."""
    kind = torch.finfo(vectors.dtype)
    largest = float(vectors.abs().amax()) if vectors.numel() else 0.0
    low, high = math.sqrt(kind.tiny / kind.eps), math.sqrt(kind.max / 4 / max(1, vectors.shape[1]))
    if largest and not low < largest < high:
        raise UserError(
            f"the largest coordinate is {largest:.1e}, but inner products in {kind.dtype} need one between {low:.0e} "
            f"and {high:.0e}; multiply all vectors by one factor, or use similarity='cosine'"
        )
    return vectors


def as_gallery(vectors: Tensor) -> GalleryRows:
    """Comparable vectors with a list of the rows that repeat an earlier row bit by bit.

    A matrix product may round equal columns differently, depending on where they stand. Then the order of
    two copies of an image would be chance. The repeats let :func:`similarities` make such ties exact.
    Rows are found by a 64-bit hash of their bits and then compared, so that a collision cannot lie.
    """
    hashes = row_hashes(vectors)
    ordered, rows = hashes.sort(stable=True)
    first = torch.searchsorted(ordered, hashes)  # where the group of each row starts
    original = rows[first]
    repeats = (original != torch.arange(len(rows), device=rows.device)).nonzero().flatten()
    same = (vectors[repeats] == vectors[original[repeats]]).all(dim=1)
    return GalleryRows(vectors, repeats[same], original[repeats][same])


def row_hashes(vectors: Tensor) -> Tensor:
    """A 64-bit hash (N,) of the bits of each row; equal rows have equal ones."""
    kind = torch.int32 if vectors.dtype == torch.float32 else torch.int64
    chance = torch.Generator().manual_seed(0)
    odd = torch.randint(-(2**62), 2**62, (vectors.shape[1],), generator=chance, device="cpu") * 2 + 1
    odd = odd.to(vectors.device)
    return torch.cat([((part + 0.0).view(kind).long() * odd).sum(dim=1) for part in _parts(vectors)])  # -0 becomes 0


def similarities(queries: Tensor, gallery: GalleryRows) -> Tensor:
    """Inner products (q, G) of a tile of queries with the whole gallery; equal columns are bit-equal."""
    tile = queries @ gallery.vectors.T
    if len(gallery.repeats):
        tile[:, gallery.repeats] = tile[:, gallery.originals]
    return tile


def block_width(columns: int, tile: int) -> int:
    """Columns of a block: all of them, or so few that a tile holds enough rows."""
    return min(columns, max(1, tile // ROWS))


def column_blocks(queries: Tensor, gallery: GalleryRows, width: int) -> Iterator[tuple[int, Tensor]]:
    """The first column and the similarities (q, w) of each block of the gallery; equal columns are bit-equal.

    Rows that are repeated may stand in several blocks. Their similarities are one product for all blocks.
    """
    if width >= len(gallery.vectors):
        yield 0, similarities(queries, gallery)
        return
    firsts, own = torch.unique(gallery.originals, return_inverse=True)
    shared = queries @ gallery.vectors[firsts].T
    columns = torch.cat([firsts, gallery.repeats])
    sources = torch.cat([torch.arange(len(firsts), device=own.device), own])
    room = queries.new_empty((len(queries), width))  # one buffer: a block is used before the next
    for start in range(0, len(gallery.vectors), width):
        part = gallery.vectors[start : start + width]
        tile = torch.mm(queries, part.T, out=room[:, : len(part)])
        if len(columns):
            here = (columns >= start) & (columns < start + width)
            tile[:, columns[here] - start] = shared[:, sources[here]]
        yield start, tile


def tile_rows(columns: int, tile: int) -> int:
    """How many rows of that many columns a tile holds; at least one."""
    if tile < 1:
        raise UserError(f"tile={tile} given; it is the number of similarities held at once, 1 or more")
    return max(1, tile // max(1, columns))
