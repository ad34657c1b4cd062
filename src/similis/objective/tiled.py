"""A comparison that is computed in tiles: the same questions, the same answers, no matrix kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from similis.objective.comparison import Comparison
from similis.objective.distances import widened
from similis.objective.plan import Plan, Span
from similis.objective.reductions import Reduced, Top
from similis.objective.references import References
from similis.objective.store import Store
from similis.objective.streaming import Streamed
from similis.objective.tile import Ask, terms_of
from similis.objective.tiling import Tiling
from similis.values import UserError

DEFAULT = Tiling(256, 2048)


@dataclass(frozen=True)
class Side:
    """Vectors in the order of their labels."""

    store: Store
    labels: Tensor | None

    @property
    def order(self) -> Tensor | None:
        """Position -> row; None where rows stand in order already."""
        return self.store.order


@dataclass(frozen=True)
class TiledComparison(Comparison):
    """Rows and references as stores that are read tile by tile."""

    row_side: Side | None = None
    column_sides: tuple[Side, ...] = ()
    tiling: Tiling = DEFAULT

    @property
    def _row(self) -> Side:
        assert self.row_side is not None
        return self.row_side

    @property
    def rows(self) -> Tensor:
        """Row vectors (r, D), read with gradient."""
        return self._row.store.rows(torch.arange(len(self._row.store), device=self.vectors.device))

    def columns(self) -> list[Tensor]:
        """The vectors of each block, read with gradient."""
        return [
            side.store.rows(torch.arange(len(side.store), device=self.vectors.device)) for side in self.column_sides
        ]

    def _taken(self, number: int, index: Tensor) -> Tensor:
        return self.column_sides[number].store.rows(index)

    def _reduced(self, ask: Ask, number: int, first: int) -> tuple[list[str], list[Reduced]]:
        block, side, row_order = self.references.blocks[number], self.column_sides[number], self._row.order
        place = torch.arange(len(block), device=self.vectors.device) if side.order is None else side.order
        plan = Plan(
            ask=ask,
            rows=self._row.store,
            columns=side.store,
            block=replace(block, labels=side.labels, ids=put(block.ids, side.order)),
            row_labels=self._row.labels,
            own=put(block.own, row_order),
            numbers=first + place,
            tiling=self.tiling,
            sphere=self.on_sphere,
        )
        values = [*(moved(v, row_order) for v in ask.rows), *(moved(v, side.order) for v in ask.cols)]
        values += [moved(widened(v), row_order) for v in ask.dots]
        kinds = probe(plan, values)
        flat = list(Streamed.apply(plan, plan.rows.token, plan.columns.token, *values))  # type: ignore[no-untyped-call]
        back = None if row_order is None else row_order.argsort()
        reduced: list[Reduced] = []
        for kind in kinds:
            if kind == "top":
                reduced.append(Top(moved(flat.pop(0), back), moved(flat.pop(0), back)))
            else:
                reduced.append(moved(flat.pop(0), back))
        return kinds, reduced


def probe(plan: Plan, values: list[Tensor]) -> list[str]:
    """What the loss's function returns, seen on one cell; refuses one that hides a learned value.

    A tensor that the function captured would lose its gradient without a word.
    """
    cell = Span(0, 1, 0, 1, masked=True)
    leaves = [x.detach() for x in plan.leaves(cell, [v.detach() for v in values])]
    with torch.enable_grad():
        terms = terms_of(plan.ask.fn(plan.tile(cell, leaves), *leaves[1 if plan.sphere else 3 :]))
    if any(term.values.requires_grad for term in terms):
        raise UserError("the function of a tile uses a learned tensor from outside; pass it through rows= or cols=")
    return [term.kind for term in terms]


def tiled(
    vectors: Tensor, row_labels: Tensor | None, references: References, *, sphere: bool, normalise: bool, tiling: Tiling
) -> TiledComparison:
    """The tiled comparison of rows with references; vectors that are both share one store."""
    row = side_of(vectors, row_labels, normalise)
    columns = tuple(
        row
        if block.vectors is vectors and block.labels is row_labels and block.relation is None
        else side_of(block.vectors, block.labels, normalise)
        for block in references
    )
    return TiledComparison(vectors, row_labels, references, sphere, row_side=row, column_sides=columns, tiling=tiling)


def side_of(vectors: Tensor, labels: Tensor | None, normalise: bool) -> Side:
    """Vectors as a store in the order of their labels; classes are in order already and are not moved."""
    order = None
    if labels is not None and len(labels) > 1 and bool((labels[1:] < labels[:-1]).any()):
        order = labels.argsort(stable=True)
    return Side(Store(vectors, normalise, order), put(labels, order))


def put(value: Tensor | None, order: Tensor | None) -> Tensor | None:
    """Values in another order; None stays None."""
    return value if value is None or order is None else value[order]


def moved(value: Tensor, order: Tensor | None) -> Tensor:
    """Values in another order."""
    return value if order is None else value.index_select(0, order)
