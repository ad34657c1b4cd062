"""The plan of a reduction in tiles: which tiles there are, and what a loss sees in each.

Rows and columns are read in the order of their labels, so that the positives of a row tile are one
stretch of columns, and negatives outside that stretch need no mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.reductions import Term, restricted
from similis.objective.references import Block
from similis.objective.store import Store
from similis.objective.tile import Ask, Tile, terms_of
from similis.objective.tiling import Tiling


class Span(NamedTuple):
    """A tile: rows first to last, columns left to right, and whether the set must be masked in it."""

    first: int
    last: int
    left: int
    right: int
    masked: bool


@dataclass(frozen=True)
class Plan:
    """One reduction over one block: what is read, in which order, and how the operands are laid out."""

    ask: Ask
    rows: Store
    columns: Store
    block: Block  # labels, ids and relation in the order of the columns' store
    row_labels: Tensor | None
    own: Tensor | None
    numbers: Tensor  # column numbers in the order of the columns' store
    tiling: Tiling
    sphere: bool

    @property
    def counts(self) -> tuple[int, int]:
        """Where the values of columns begin among all values, and where the further products do."""
        return len(self.ask.rows), len(self.ask.rows) + len(self.ask.cols)

    @property
    def skip(self) -> int:
        """Leaves before the values that the loss passes on: similarities, and squared norms if raw."""
        return 1 if self.sphere else 3

    def spans(self) -> Iterator[tuple[int, int, list[Span]]]:
        """Row tiles, each with the column tiles that it has to meet."""
        height, count = self.tiling.rows, len(self.rows)
        starts = list(range(0, count, height))
        bands = self._bands(starts)
        for number, first in enumerate(starts):
            last = min(first + height, count)
            yield first, last, list(self._columns(first, last, bands[number] if bands else None))

    def _bands(self, starts: list[int]) -> list[tuple[int, int]] | None:
        """For each row tile the stretch of columns that may share a label with it; None without an order."""
        if self.block.relation is not None or self.row_labels is None or self.block.labels is None:
            return None
        ends = [min(start + self.tiling.rows, len(self.rows)) - 1 for start in starts]
        low = torch.searchsorted(self.block.labels, self.row_labels[starts])
        high = torch.searchsorted(self.block.labels, self.row_labels[ends], right=True)
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def _columns(self, first: int, last: int, band: tuple[int, int] | None) -> Iterator[Span]:
        total = len(self.columns)
        if self.ask.which == "pos" and band is not None:
            pieces = [(band[0], band[1], True)]
        elif self.ask.which == "neg" and band is not None:
            pieces = [(0, band[0], False), (band[0], band[1], True), (band[1], total, False)]
        elif self.ask.which == "others" and band is not None and self.block.mirrored:
            pieces = [(0, band[0], False), (band[0], band[1], True), (band[1], total, False)]  # self shares its label
        else:
            pieces = [(0, total, self.ask.which != "every")]
        for left, right, masked in pieces:
            for start in range(left, right, self.tiling.columns):
                yield Span(first, last, start, min(start + self.tiling.columns, right), masked)

    def tile(self, span: Span, leaves: Sequence[Tensor]) -> Tile:
        """The tile of a span around its similarities (and squared norms) as given."""
        first, last, left, right, _ = span
        relation = self.block.relation
        return Tile(
            s=leaves[0],
            norms=None if self.sphere else leaves[1] + leaves[2],
            grade=1.0 if relation is None else relation[first:last, left:right],
            once=0.5 if self.block.mirrored else 1.0,
            row_labels=None if self.row_labels is None else self.row_labels[first:last],
            column_labels=None if self.block.labels is None else self.block.labels[left:right],
            columns=self.numbers[None, left:right],
        )

    def mask(self, span: Span) -> Tensor | None:
        """The set of the rows within the columns of a span; None where all belong to it."""
        if not span.masked:
            return None
        first, last, left, right, _ = span
        block = self.block
        part = Block(
            vectors=block.vectors[:0],
            labels=None if block.labels is None else block.labels[left:right],
            own=None if self.own is None else self.own[first:last],
            ids=None if block.ids is None else block.ids[left:right],
            relation=None if block.relation is None else block.relation[first:last, left:right],
        )
        return part.members(self.ask.which, None if self.row_labels is None else self.row_labels[first:last])

    def leaves(self, span: Span, values: Sequence[Tensor]) -> list[Tensor]:
        """Similarities, squared norms if raw, then values of rows and columns, then further products."""
        first, last, left, right, _ = span
        rows, columns = self.rows.tile(first, last), self.columns.tile(left, right)
        flat = columns.flatten(0, -2)
        made = [shaped(rows @ flat.T, columns)]
        if not self.sphere:
            made += [rows.square().sum(-1)[:, None], columns.square().sum(-1)[None]]
        begin, ends = self.counts
        made += [v[first:last].unsqueeze(1) for v in values[:begin]]
        made += [v[left:right].unsqueeze(0) for v in values[begin:ends]]
        made += [product(vectors[first:last], columns) for vectors in values[ends:]]
        return made

    def terms(self, span: Span, leaves: Sequence[Tensor]) -> tuple[Term, ...]:
        """What the loss reduces in this tile, over its set."""
        mask = self.mask(span)
        return tuple(restricted(t, mask) for t in terms_of(self.ask.fn(self.tile(span, leaves), *leaves[self.skip :])))


def shaped(flat: Tensor, columns: Tensor) -> Tensor:
    """(r, c K) as (r, c, K) for columns of K vectors."""
    return flat if columns.ndim == 2 else flat.view(len(flat), *columns.shape[:2])


def product(vectors: Tensor, columns: Tensor) -> Tensor:
    """Products of further row vectors (r, D) or (r, m, D) with the columns: (r, c) or (r, c, m)."""
    if vectors.ndim == 2:
        return vectors @ columns.T
    return torch.einsum("rmd,cd->rcm", vectors, columns)
