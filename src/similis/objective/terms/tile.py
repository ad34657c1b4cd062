"""A tile: one block of the rows x columns matrix, as a loss's function sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from torch import Tensor

from similis.objective.terms.distances import Similarities
from similis.objective.terms.reductions import Term
from similis.objective.terms.tile_distance import TileDistance
from similis.values import UserError

Set = Literal["pos", "neg", "others", "every"]
TileFunction = Callable[..., Term | tuple[Term, ...]]


class Ask(NamedTuple):
    """What a loss asks of a comparison: reduce ``fn(tile, *rows, *cols, *dots)`` over a set of columns."""

    which: Set
    fn: TileFunction
    rows: Sequence[Tensor] = ()
    cols: Sequence[Tensor] = ()
    dots: Sequence[Tensor] = ()


@dataclass
class Tile(Similarities):
    """One block of the rows x columns matrix.

    Beside similarity and distances: ``grade`` of each pair (1 for labels), ``once`` (1/2 in a block
    that holds every pair twice), the labels of rows and columns, the number of each column. Tiles of a
    stream (``streamed``) have no second derivatives, and cheaper distances for it.
    """

    grade: Tensor | float
    once: float
    row_labels: Tensor | None
    column_labels: Tensor | None
    columns: Tensor
    streamed: bool = False
    kept: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def d2(self) -> Tensor:
        """Squared Euclidean distance, never negative, 0 where only rounding is left."""
        return self._distance("d2")

    @property
    def d(self) -> Tensor:
        """Euclidean distance, with gradient 0 at 0."""
        return self._distance("d")

    def _distance(self, which: Literal["d", "d2"]) -> Tensor:
        """A distance; of a whole matrix it is kept, for several reductions may ask for it."""
        if self.streamed:
            rows, columns = self.squares if isinstance(self.squares, tuple) else (None, None)
            found: Tensor = TileDistance.apply(self.s, rows, columns, which == "d")  # type: ignore[no-untyped-call]
            return found
        if which not in self.kept:
            plain = Similarities(self.s, self.squares)
            self.kept[which] = plain.d if which == "d" else plain.d2
        return self.kept[which]

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


class WatchedTile:
    """Stands before a tile and notes what a loss's function reads of it."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self.tile, name)


# what row and column have in common: a function of these alone is the same for the mirror image of a tile
MUTUAL = frozenset({"s", "d", "d2", "norms", "far", "once"})

# what needs the squared norms of raw vectors
NORMS = frozenset({"d", "d2", "norms", "far", "squares"})


def transpose_term(term: Term) -> Term:
    """The term of a tile as that of its mirror image."""
    where = None if term.where is None else term.where.transpose(0, 1)
    return term._replace(values=term.values.transpose(0, 1), where=where)
