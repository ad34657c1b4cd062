"""What a back-end is given, and what it answers.

Blocks are merged, class weights applied and ranks merged outside, for the dense and the tiled one alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor

from similis.objective.references import References
from similis.objective.terms.distances import Geometry
from similis.objective.terms.reductions import Reduced
from similis.objective.terms.tile import Ask


class Operands(NamedTuple):
    """Rows and the references that they are compared with, as given.

    Attributes:
        vectors: rows (r, D).
        row_labels: (r,) their labels; None with a relation.
        references: blocks of columns.
        on_sphere: squared norms are 1: distances follow from similarities alone.
        normalise: put rows and columns on the unit sphere first.
    """

    vectors: Tensor
    row_labels: Tensor | None
    references: References
    on_sphere: bool
    normalise: bool


class Hinges(NamedTuple):
    """Of each anchor: sum of the hinge over its triplets, their number, and how many are above 0."""

    value: Tensor
    number: Tensor
    active: Tensor


class Backend(Protocol):
    """How a comparison is computed. A block is named by its number among the references."""

    def rows(self) -> Tensor:
        """Row vectors (r, D) as they are compared, with gradient."""

    def columns(self, number: int) -> Tensor:
        """The vectors of a block as they are compared, with gradient."""

    def take(self, number: int, index: Tensor) -> Tensor:
        """Vectors of a block at row numbers of any shape, with gradient."""

    def own(self, number: int, fn: Callable[[Tensor], Tensor]) -> Tensor:
        """A value of every vector of a block for itself: ``fn`` of (c, D) or (c, K, D) gives (c,)."""

    def reduce(self, ask: Ask, number: int, first: int) -> tuple[list[str], list[Reduced]]:
        """The kinds and values of what is asked, over one block whose first column has the number ``first``."""

    def hinges(self, geometry: Geometry, margin: float) -> Hinges | None:
        """``[f_ap - f_an + margin]_+`` over all triplets of each anchor; None to have it done by reductions."""
