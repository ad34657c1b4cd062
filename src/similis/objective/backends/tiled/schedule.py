"""The plan of a reduction in tiles: which tiles there are, and what a loss sees in each.

Rows and columns are read in the order of their labels, so that the positives of a row tile are one
stretch of columns, and negatives outside that stretch need no mask. Where rows and columns are the
same vectors, a tile above the diagonal also serves as its own mirror image below: half the products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.backends.dense_or_tiled import positive_rows
from similis.objective.backends.tiled.reader import TileReader
from similis.objective.context import Tiling
from similis.objective.references import Block
from similis.objective.terms.distances import products
from similis.objective.terms.reductions import Term, as_terms, restrict
from similis.objective.terms.tile import Set, Tile, TileFunction


class TileRange(NamedTuple):
    """A tile: rows first to last, columns left to right.

    ``masked`` says that not every entry belongs to the set, ``mirrored`` that the tile stands for its
    mirror image too.
    """

    first: int
    last: int
    left: int
    right: int
    masked: bool
    mirrored: bool = False

    def views(self, similarity: Tensor) -> Iterator[tuple[TileRange, Tensor]]:
        """The tile and, if it stands for it, its mirror image."""
        yield self, similarity
        if self.mirrored:
            yield self.mirror, similarity.T

    @property
    def mirror(self) -> TileRange:
        """The mirror image as a tile of its own."""
        return TileRange(self.left, self.right, self.first, self.last, self.masked)


@dataclass(frozen=True)
class TileSchedule:
    """One reduction over one block: what is read, in which order, and how the operands are laid out."""

    which: Set
    fn: TileFunction
    counts: tuple[int, int]  # where the values of columns begin among all values, and where the further products do
    further: bool  # whether there are further products
    rows: TileReader
    columns: TileReader
    block: Block  # labels, ids and relation in the order in which the columns are read
    row_labels: Tensor | None
    row_names: Tensor | None  # labels of the rows on the host, and of the columns where the block has labels
    column_names: Tensor | None
    only_band: bool  # columns outside a row tile's band are all negatives: no image has two labels
    own: Tensor | None
    offset: int  # number of the block's first column
    tiling: Tiling
    sphere: bool
    mutual: bool = False  # what the loss makes of a tile is, turned, what it makes of the mirror image

    @property
    def skip(self) -> int:
        """Leaves before the values that the loss passes on: similarities, and squared norms if raw."""
        return 1 if self.sphere else 3

    @property
    def labelled(self) -> bool:
        """Whether rows and columns stand in the order of labels."""
        return self.block.relation is None and self.row_labels is not None and self.block.labels is not None

    def spans(self) -> Iterator[TileRange]:
        """All tiles that have to be met."""
        banded = self.which == "pos" and self.labelled
        if self.rows is self.columns and not self.further and not banded:
            yield from self._upper()
            return
        count = len(self.rows)
        height = positive_rows(self.tiling, self.rows.raw.device) if banded else self.tiling.rows
        starts = list(range(0, count, height))
        ends = [min(start + height, count) for start in starts]
        for first, last, band in zip(starts, ends, self.bands(starts, ends), strict=True):
            for left, right, masked in self._pieces(band):
                for start in range(left, right, self.tiling.columns):
                    yield TileRange(first, last, start, min(start + self.tiling.columns, right), masked)

    def bands(self, starts: list[int], ends: list[int]) -> list[tuple[int, int]]:
        """For each row tile the stretch of columns that may share a label with it; all without an order."""
        if self.block.private:  # the columns stand in the order of the rows that they belong to
            each = len(self.columns) // max(1, len(self.rows))
            return [(start * each, end * each) for start, end in zip(starts, ends, strict=True)]
        if not self.labelled or self.row_names is None or self.column_names is None:
            return [(0, len(self.columns))] * len(starts)
        first, final = self.row_names[starts], self.row_names[[end - 1 for end in ends]]
        low = torch.searchsorted(self.column_names, first)
        high = torch.searchsorted(self.column_names, final, right=True)
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def _pieces(self, band: tuple[int, int]) -> list[tuple[int, int, bool]]:
        """Stretches of columns to be met by a row tile, and whether the set must be masked in them."""
        total, which = len(self.columns), self.which
        low, high = band
        if self.block.private:
            return [(low, high, True)]
        if which == "every":
            return [(0, total, False)]
        if which == "pos":
            return [(low, high, True)]
        clean = self.labelled and (self.only_band if which == "neg" else self.block.mirrored)
        if clean:  # among the others, self shares its label
            return [(0, low, False), (low, high, True), (high, total, False)]
        return [(0, total, True)]

    def _upper(self) -> Iterator[TileRange]:
        """Square tiles on and above the diagonal."""
        cuts = self._cuts()
        for i, (first, last) in enumerate(pairwise(cuts)):
            for j in range(i, len(cuts) - 1):
                left, right = cuts[j], cuts[j + 1]
                masked = self.which != "every" and (i == j or self._meets(last, left))
                yield TileRange(first, last, left, right, masked, mirrored=i != j)

    def _cuts(self) -> list[int]:
        """Where square tiles begin, if possible between two classes: then only those on the diagonal need a mask."""
        side = max(1, math.isqrt(self.tiling.rows * self.tiling.columns))
        labels, count = self.column_names if self.labelled else None, len(self.rows)
        cuts = [0]
        while cuts[-1] < count:
            end = min(cuts[-1] + side, count)
            if labels is not None and end < count:
                begin = int(torch.searchsorted(labels, labels[end]))
                end = begin if begin > cuts[-1] else end
            cuts.append(end)
        return cuts

    def _meets(self, last: int, left: int) -> bool:
        """Whether a set may be incomplete off the diagonal, in columns from ``left`` on, for rows up to ``last``."""
        if not self.labelled or self.column_names is None:
            return True
        shared = bool(self.column_names[last - 1] == self.column_names[left])
        return shared and self.which != "others"

    def tile(self, span: TileRange, leaves: Sequence[Tensor]) -> Tile:
        """The tile of a span around its similarities (and squared norms) as given."""
        first, last, left, right, *_ = span
        relation = self.block.relation
        return Tile(
            s=leaves[0],
            squares=None if self.sphere else (leaves[1], leaves[2]),
            grade=1.0 if relation is None else relation[first:last, left:right],
            once=0.5 if self.block.mirrored else 1.0,
            row_labels=None if self.row_labels is None else self.row_labels[first:last],
            column_labels=self.labels(left, right),
            columns=self.numbers(left, right)[None],
            streamed=True,
        )

    def mask(self, span: TileRange) -> Tensor | None:
        """The set of the rows within the columns of a span; None where all belong to it."""
        return self.part(span).members(self.which, self.labels_of(span)) if span.masked else None

    def numbers(self, left: int, right: int) -> Tensor:
        """Column numbers at positions left to right; not kept for all columns, of which there may be millions."""
        order = self.columns.order
        if order is None:
            return torch.arange(self.offset + left, self.offset + right, device=self.columns.raw.device)
        return self.offset + order[left:right]

    def labels(self, left: int, right: int) -> Tensor | None:
        """Labels of the columns at positions left to right; None with a relation."""
        return None if self.block.labels is None else self.block.labels[left:right]

    def labels_of(self, span: TileRange) -> Tensor | None:
        """The labels of a span's rows."""
        return None if self.row_labels is None else self.row_labels[span.first : span.last]

    def part(self, span: TileRange) -> Block:
        """Labels, ids and relation of the columns of a span, as its rows see them."""
        first, last, left, right, *_ = span
        block = self.block
        return Block(
            vectors=block.vectors[left:right],
            labels=self.labels(left, right),
            own=None if self.own is None else self.own[first:last],
            ids=None if block.ids is None else block.ids[left:right],
            relation=None if block.relation is None else block.relation[first:last, left:right],
            private=block.private,
        )

    def operands(self, span: TileRange) -> tuple[Tensor, Tensor]:
        """The vectors of rows and columns."""
        return self.rows.tile(span.first, span.last), self.columns.tile(span.left, span.right)

    def leaves(self, span: TileRange, similarity: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
        """Similarities, squared norms if raw, then values of rows and columns, then further products."""
        first, last, left, right, *_ = span
        made = [similarity]
        if not self.sphere:
            made += [self.rows.squares[first:last, None], self.columns.squares[None, left:right]]
        begin, ends = self.counts
        made += [v[first:last].unsqueeze(1) for v in values[:begin]]
        made += [v[left:right].unsqueeze(0) for v in values[begin:ends]]
        return made + [products(vectors[first:last], self.columns.tile(left, right)) for vectors in values[ends:]]

    def made(self, span: TileRange, leaves: Sequence[Tensor]) -> tuple[Term, ...]:
        """What the loss makes of this tile, not yet restricted to its set."""
        return as_terms(self.fn(self.tile(span, leaves), *leaves[self.skip :]))

    def within(self, span: TileRange, made: Sequence[Term]) -> tuple[Term, ...]:
        """Terms of a tile over its set."""
        mask = self.mask(span)
        return tuple(restrict(term, mask) for term in made)
