"""Positives by list: a row's few positives are taken out of a matrix first, and a function sees nothing else.

A set of five columns among thousands is no matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.references import Block
from similis.objective.terms.distances import Similarities
from similis.objective.terms.reductions import Reduced, Top, as_terms, evaluate
from similis.objective.terms.tile import Ask, Tile
from similis.values import UserError

LEAST = 2**15  # pairs from which positives are listed
SHARE = 1 / 8  # of the columns, which positives are at most


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


def list_positives(
    ask: Ask, block: Block, row_labels: Tensor | None, share: float = SHARE
) -> tuple[Tensor, Tensor] | None:
    """Column numbers (r, m) of each row's positives in a block and which are real; None where a list does not pay."""
    if ask.which != "pos" or ask.dots or row_labels is None or block.labels is None or block.relation is not None:
        return None
    if len(row_labels) * len(block) < LEAST or torch.compiler.is_compiling():
        return None
    if any(v.ndim > 1 for v in ask.rows):  # a further axis may stand for all columns
        return None
    index, real = block.positives(row_labels)
    return (index, real) if index.shape[1] <= share * len(block) else None


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
    found = [evaluate(term, mask=real) for term in terms]
    numbered = [number_columns(part, index, first) if isinstance(part, Top) else part for part in found]
    return [term.kind for term in terms], numbered


def take_columns(values: Tensor, index: Tensor) -> Tensor:
    """Values (r, c) or (r, c, K) at columns (r, m)."""
    return values.take_along_dim(index if values.ndim == 2 else index[..., None], 1)


def number_columns(found: Top, index: Tensor, first: int) -> Top:
    """A top among columns (r, m), with the numbers of these columns."""
    columns = index.gather(1, found.index.clamp(min=0)) + first
    return found._replace(index=torch.where(found.index < 0, -1, columns))
