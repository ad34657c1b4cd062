"""Positives by list: on a device a row's few positives are taken out first, and a function sees nothing else.

A set of five columns among thousands is no matrix. The host has no use for it: there tiles of neighbouring labels
fit into a cache.
"""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.backends.dense import number_columns, take_columns
from similis.objective.terms.distances import Similarities
from similis.objective.terms.reductions import Reduced, Top, evaluate, restrict
from similis.objective.terms.references import Block
from similis.objective.terms.tile import Ask, Tile, as_terms
from similis.values import UserError

LEAST = 2**20  # pairs


class ListedTile(Tile):
    """Columns (r, m) of each row alone: what a tile has for its columns, these have for each entry."""

    @property
    def same(self) -> Tensor:
        """All are positives."""
        return torch.ones_like(self.columns, dtype=torch.bool)

    def of_classes(self, matrix: Tensor) -> Tensor:
        """The entry of a class x class matrix for the labels of row and column."""
        if self.row_labels is None or self.column_labels is None:
            raise UserError("a class matrix needs labels; a relation matrix has none")
        return matrix[self.row_labels[:, None], self.column_labels]


def takes_list(ask: Ask, block: Block, rows: int) -> bool:
    """Whether a question of so many rows about a block is answered from a list of each row's positives.

    Below ``LEAST`` pairs a device waits for launches, not for its memory, and does what the host does, bit for bit.
    """
    if rows * len(block) < LEAST:
        return False
    plain = block.relation is None and block.labels is not None and not block.vectors.is_cpu
    flat = not ask.dots and all(v.ndim == 1 for v in ask.rows)  # a further axis may stand for all columns
    return ask.which == "pos" and plain and flat and not torch.compiler.is_compiling()


def list_columns(tile: Tile, index: Tensor) -> Similarities:
    """Similarities of a whole tile at columns (r, m)."""
    if not isinstance(tile.squares, tuple):
        return Similarities(take_columns(tile.s, index), tile.squares)
    rows, columns = tile.squares
    return Similarities(take_columns(tile.s, index), (rows, columns[0][index]))


def reduce_listed(
    ask: Ask, near: Similarities, block: Block, listed: tuple[Tensor, Tensor], place: tuple[Tensor | None, int]
) -> tuple[list[str], list[Reduced]]:
    """The kinds and values of what is asked, over listed columns.

    Args:
        ask: the question.
        near: of each row with its columns, (r, m).
        block: the columns.
        listed: (r, m) their numbers in the block, and which are real.
        place: labels of the rows, and the number of the block's first column.
    """
    (index, real), (row_labels, first) = listed, place
    tile = ListedTile(
        s=near.s,
        squares=near.squares,
        grade=1.0,
        once=0.5 if block.mirrored else 1.0,
        row_labels=row_labels,
        column_labels=None if block.labels is None else block.labels[index],
        columns=index + first,
    )
    terms = as_terms(ask.fn(tile, *(v.unsqueeze(1) for v in ask.rows), *(v[index] for v in ask.cols)))
    found = [evaluate(restrict(term, real)) for term in terms]
    numbered = [number_columns(part, index, first) if isinstance(part, Top) else part for part in found]
    return [term.kind for term in terms], numbered
