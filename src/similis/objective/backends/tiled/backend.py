"""The back-end in tiles: the same answers as the dense one, no matrix kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from similis.objective.backends.dense_or_tiled import DEVICE_TILE
from similis.objective.backends.listed_positives import list_positives, reduce_listed
from similis.objective.backends.protocol import Hinges, Operands
from similis.objective.backends.tiled.function import run_tiled
from similis.objective.backends.tiled.reader import TileReader, read_in_tiles
from similis.objective.backends.tiled.readings import Rows, ValuesOfVectors
from similis.objective.backends.tiled.reduction import Reduction, reduce_nothing
from similis.objective.backends.tiled.schedule import TileRange, TileSchedule
from similis.objective.backends.tiled.triplets import TripletHinges
from similis.objective.context import Tiling
from similis.objective.host_copies import on_host
from similis.objective.references import Block
from similis.objective.terms.distances import Geometry, products, squares
from similis.objective.terms.pair_products import ENTRIES, similarities_at
from similis.objective.terms.reductions import Reduced, Term, Top, as_terms
from similis.objective.terms.tile import MUTUAL, NORMS, Ask, WatchedTile
from similis.sphere import widen
from similis.values import UserError

DEFAULT = Tiling(256, 1024)


@dataclass(frozen=True)
class Side:
    """Vectors in the order of their labels."""

    reader: TileReader
    labels: Tensor | None
    names: Tensor | None = None  # the labels on the host, where tiles are planned

    @property
    def order(self) -> Tensor | None:
        """Position -> row; None where rows stand in order already."""
        return self.reader.order


@dataclass(frozen=True, eq=False)
class Tiled:
    """Rows and references that are read tile by tile."""

    operands: Operands
    row: Side
    sides: tuple[Side, ...]
    tiling: Tiling
    in_band: dict[int, bool] = field(default_factory=dict, repr=False)  # of each block, see is_in_band

    def rows(self) -> Tensor:
        """Row vectors (r, D), read with gradient."""
        return take_rows(self.row.reader)

    def columns(self, number: int) -> Tensor:
        """The vectors of a block, read with gradient."""
        return take_rows(self.sides[number].reader)

    def take(self, number: int, index: Tensor) -> Tensor:
        """Vectors of a block at row numbers."""
        return take_rows(self.sides[number].reader, index)

    def own(self, number: int, fn: Callable[[Tensor], Tensor]) -> Tensor:
        """A value of every vector of a block for itself."""
        reader = self.sides[number].reader
        (found,) = run_tiled(ValuesOfVectors(reader, fn))
        return found if reader.places is None else found.index_select(0, reader.places)

    def plan(self, ask: Ask, number: int, first: int = 0) -> TileSchedule:
        """How a reduction over one block, whose first column has that number, goes through its tiles."""
        block, side = self.operands.references.blocks[number], self.sides[number]
        if ask.which == "neg" and number not in self.in_band:
            self.in_band[number] = is_in_band(block, self.operands.row_labels)
        return TileSchedule(
            which=ask.which,
            fn=ask.fn,
            counts=(len(ask.rows), len(ask.rows) + len(ask.cols)),
            further=bool(ask.dots),
            rows=self.row.reader,
            columns=side.reader,
            block=replace(
                block,
                vectors=side.reader.raw,
                labels=side.labels,
                ids=permute_optional(block.ids, side.order),
            ),
            row_labels=self.row.labels,
            row_names=self.row.names,
            column_names=side.names,
            only_band=ask.which != "neg" or self.in_band[number],
            own=permute_optional(block.own, self.row.order),
            offset=first,
            tiling=self.tiling,
            sphere=self.operands.on_sphere,
        )

    def restore_order(self, value: Tensor) -> Tensor:
        """Values of rows in the order of reading, back in the order of the rows."""
        places = self.row.reader.places
        return value if places is None else value.index_select(0, places)

    def reduce(self, ask: Ask, number: int, first: int) -> tuple[list[str], list[Reduced]]:
        """The kinds and values of what is asked, over one block whose first column has that number."""
        block, labels = self.operands.references.blocks[number], self.operands.row_labels
        if not block.vectors.is_cpu and block.vectors.ndim == 2:  # tiles of the host fit into a cache
            listed = list_positives(ask, block, labels, 1 / ENTRIES)
            if listed is not None:
                near = similarities_at(self.rows(), self.columns(number), listed[0], self.operands.on_sphere)
                return reduce_listed(ask, near, block, listed, (labels, first))
        plan, side = self.plan(ask, number, first), self.sides[number]
        values = [*(permute(v, self.row.order) for v in ask.rows), *(permute(v, side.order) for v in ask.cols)]
        values += [permute(widen(v), self.row.order) for v in ask.dots]
        probed, read = probe(plan, values)
        kinds: list[str] = [term.kind for term in probed]
        stack = side.reader.raw.shape[1:-1].numel()  # K vectors of a class are part of the tiling already
        depth = max(term.values.shape[2:].numel() for term in probed) // stack
        mutual = not (ask.rows or ask.cols or ask.dots) and read <= MUTUAL
        sphere = plan.sphere or not read & NORMS  # squared norms that nobody reads need not be there
        plan = replace(plan, tiling=self.tiling.divide(depth), mutual=mutual, sphere=sphere)
        flat = run_tiled(Reduction(plan, [(term.kind, reduce_nothing(term)) for term in probed]), *values)
        reduced: list[Reduced] = []
        for kind in kinds:
            part = self.restore_order(flat.pop(0))
            reduced.append(Top(part, self.restore_order(flat.pop(0))) if kind == "top" else part)
        return kinds, reduced

    def hinges(self, geometry: Geometry, margin: float) -> Hinges:
        """The hinge over all triplets by sorted positives."""
        plans = [self.plan(Ask("neg", no_terms), number) for number in range(len(self.sides))]
        found = run_tiled(TripletHinges(plans, geometry, margin))
        return Hinges(*(self.restore_order(x) for x in found))


def probe(plan: TileSchedule, values: list[Tensor]) -> tuple[list[Term], set[str]]:
    """What the loss's function returns, seen on one cell, and what it reads; refuses one that hides a learned value.

    A tensor that the function captured would lose its gradient without a word.
    """
    cell = TileRange(0, 1, 0, 1, masked=True)
    rows, columns = plan.operands(cell)
    bare = replace(plan, sphere=True).leaves(cell, products(rows, columns), [v.detach() for v in values])
    if not plan.sphere:  # of this cell alone: perhaps nobody asks for them
        bare[1:1] = [squares(rows)[:, None], squares(columns)[None]]
    leaves = [x.detach() for x in bare]
    watched = WatchedTile(plan.tile(cell, leaves))
    with torch.enable_grad():
        terms = as_terms(plan.fn(watched, *leaves[plan.skip :]))
    if any(term.values.requires_grad for term in terms):
        raise UserError("the function of a tile uses a learned tensor from outside; pass it through rows= or cols=")
    return list(terms), watched.read


def no_terms(*_: Tensor) -> tuple[Term, ...]:
    """No reduction: the plan is asked for its tiles only."""
    return ()


def make_tiled(operands: Operands, tiling: Tiling | None = None) -> Tiled:
    """The back-end of a comparison in tiles; vectors that are rows and columns share one reader."""
    vectors, labels, references, _, normalise = operands
    row = make_side(vectors, labels, normalise)

    def side(block: Block) -> Side:
        if block.vectors is vectors and same_labels(block.labels, labels):
            return row
        if block.private:
            order = None if row.order is None else order_private(row.order, len(block) // max(1, len(vectors)))
            return Side(read_in_tiles(block.vectors, normalise, order), block.labels)
        return make_side(block.vectors, block.labels, normalise)

    default = DEFAULT if vectors.is_cpu else DEVICE_TILE
    return Tiled(operands, row, tuple(side(block) for block in references), default if tiling is None else tiling)


def order_private(order: Tensor, each: int) -> Tensor:
    """The order of columns, ``each`` of them a row's own, where the rows stand in that order."""
    return (order[:, None] * each + torch.arange(each, device=order.device)).flatten()


def make_side(vectors: Tensor, labels: Tensor | None, normalise: bool) -> Side:
    """Vectors as a reader in the order of their labels; classes are in order already and are not moved."""
    if labels is None:
        return Side(read_in_tiles(vectors, normalise), None)
    names, order = on_host(labels), None
    ordered = labels
    if bool((names[1:] < names[:-1]).any()):
        order = labels.argsort(stable=True)
        ordered = labels[order]
        names = ordered if labels is names else names.sort().values
    return Side(read_in_tiles(vectors, normalise, order), ordered, names)


def is_in_band(block: Block, row_labels: Tensor | None) -> bool:
    """Whether columns outside a row tile's band are all negatives: no image has two labels."""
    if (
        block.mirrored
        or block.private
        or block.own is None
        or block.ids is None
        or row_labels is None
        or block.labels is None
    ):
        return True
    own, ids, labels = on_host(block.own), on_host(block.ids), on_host(block.labels)
    found = torch.isin(ids, own).nonzero()[:, 0]
    same = own[:, None] == ids[found]
    return not bool((same & (on_host(row_labels)[:, None] != labels[found])).any())


def take_rows(reader: TileReader, index: Tensor | None = None) -> Tensor:
    """Vectors by their own row numbers, any shape of index, all of them by None; with gradient."""
    index = torch.arange(len(reader), device=reader.raw.device) if index is None else index
    (found,) = run_tiled(Rows(reader, index))
    return found


def same_labels(first: Tensor | None, second: Tensor | None) -> bool:
    """Whether both are the same labels, or none."""
    return first is second or (first is not None and second is not None and torch.equal(first, second))


def permute_optional(value: Tensor | None, order: Tensor | None) -> Tensor | None:
    """Values in another order; None stays None."""
    return value if value is None or order is None else value[order]


def permute(value: Tensor, order: Tensor | None) -> Tensor:
    """Values in another order."""
    return value if order is None else value.index_select(0, order)
