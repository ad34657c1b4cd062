"""A tile: one block of the rows x columns matrix, as a loss's function sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from similis.objective.distances import Likeness
from similis.objective.reductions import Term
from similis.objective.references import Set
from similis.values import UserError

TileFunction = Callable[..., Term | tuple[Term, ...]]


class Ask(NamedTuple):
    """What a loss asks of a comparison: reduce ``fn(tile, *rows, *cols, *dots)`` over a set of columns."""

    which: Set
    fn: TileFunction
    rows: Sequence[Tensor] = ()
    cols: Sequence[Tensor] = ()
    dots: Sequence[Tensor] = ()


@dataclass
class Tile(Likeness):
    """One block of the rows x columns matrix.

    Beside similarity and distances: ``grade`` of each pair (1 for labels), ``once`` (1/2 in a block
    that holds every pair twice), the labels of rows and columns, the number of each column.
    """

    grade: Tensor | float
    once: float
    row_labels: Tensor | None
    column_labels: Tensor | None
    columns: Tensor

    @property
    def same(self) -> Tensor:
        """(r, c): row and column have one label, self included."""
        if self.row_labels is None or self.column_labels is None:
            raise UserError("this loss needs labels; a relation matrix has none")
        return self.row_labels[:, None] == self.column_labels[None, :]

    def of_classes(self, matrix: Tensor) -> Tensor:
        """(r, c): the entry of a class x class matrix for the labels of row and column."""
        if self.row_labels is None or self.column_labels is None:
            raise UserError("a class matrix needs labels; a relation matrix has none")
        return matrix[self.row_labels][:, self.column_labels]


def terms_of(made: Term | tuple[Term, ...]) -> tuple[Term, ...]:
    """What a loss's function returned, as a tuple."""
    return (made,) if isinstance(made, Term) else made
