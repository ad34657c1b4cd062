"""A comparison that is computed in tiles: the same questions, the same answers, no matrix kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from similis.objective.backends.base import Comparison, squares
from similis.objective.backends.choice import DEVICE_TILE
from similis.objective.backends.listed import reduce_listed, takes_list
from similis.objective.backends.tiled.function import run_tiled
from similis.objective.backends.tiled.reader import TileReader, read_in_tiles
from similis.objective.backends.tiled.readings import Rows, ValuesOfVectors
from similis.objective.backends.tiled.reduction import Reduction, reduce_nothing
from similis.objective.backends.tiled.schedule import TileRange, TileSchedule
from similis.objective.context import Tiling, current_context
from similis.objective.host_copies import on_host
from similis.objective.terms.distances import products
from similis.objective.terms.pair_products import ENTRIES
from similis.objective.terms.reductions import Reduced, Term, Top
from similis.objective.terms.references import Block, References
from similis.objective.terms.tile import MUTUAL, NORMS, Ask, WatchedTile, as_terms
from similis.sphere import widen
from similis.values import UserError

DEFAULT = Tiling(256, 1024)


@dataclass(frozen=True)
class Side:
    """Vectors in the order of their labels."""

    reader: TileReader
    labels: Tensor | None
    counting: int | None = None  # the first label where labels rise by one, as those of classes do
    names: Tensor | None = None  # the labels on the host, where tiles are planned

    @property
    def order(self) -> Tensor | None:
        """Position -> row; None where rows stand in order already."""
        return self.reader.order


@dataclass(frozen=True)
class TiledComparison(Comparison):
    """Rows and references that are read tile by tile."""

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
        return take_rows(self._row.reader)

    def columns(self) -> list[Tensor]:
        """The vectors of each block, read with gradient."""
        return [take_rows(side.reader) for side in self.column_sides]

    def _taken(self, number: int, index: Tensor) -> Tensor:
        return take_rows(self.column_sides[number].reader, index)

    def _owned(self, number: int, fn: Callable[[Tensor], Tensor]) -> Tensor:
        reader = self.column_sides[number].reader
        (found,) = run_tiled(ValuesOfVectors(reader, fn))
        return found if reader.places is None else found.index_select(0, reader.places)

    def plan(self, ask: Ask, number: int, first: int = 0) -> TileSchedule:
        """How a reduction over one block, whose first column has that number, goes through its tiles."""
        block, side = self.references.blocks[number], self.column_sides[number]
        counting = side.counting if block.own is None and block.relation is None else None
        return TileSchedule(
            which=ask.which,
            fn=ask.fn,
            counts=(len(ask.rows), len(ask.rows) + len(ask.cols)),
            further=bool(ask.dots),
            rows=self._row.reader,
            columns=side.reader,
            block=replace(
                block,
                vectors=side.reader.raw,
                labels=side.labels if counting is None else None,
                ids=permute_optional(block.ids, side.order),
            ),
            row_labels=self._row.labels,
            row_names=self._row.names,
            column_names=side.names if counting is None else None,
            only_band=ask.which != "neg" or self._once(number, "only band", lambda: is_in_band(block, self.row_labels)),
            own=permute_optional(block.own, self._row.order),
            offset=first,
            tiling=self.tiling,
            sphere=self.on_sphere,
            counting=counting,
        )

    def restore_order(self, value: Tensor) -> Tensor:
        """Values of rows in the order of reading, back in the order of the rows."""
        places = self._row.reader.places
        return value if places is None else value.index_select(0, places)

    def _reduced(self, ask: Ask, number: int, first: int) -> tuple[list[str], list[Reduced]]:
        found = self._listed(ask, number, first)
        if found is not None:
            return found
        plan, row_order = self.plan(ask, number, first), self._row.order
        side = self.column_sides[number]
        values = [*(permute(v, row_order) for v in ask.rows), *(permute(v, side.order) for v in ask.cols)]
        values += [permute(widen(v), row_order) for v in ask.dots]
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

    def _listed(self, ask: Ask, number: int, first: int) -> tuple[list[str], list[Reduced]] | None:
        """The answer from a list of positives, where a device has few positives among many columns; else None."""
        block = self.references.blocks[number]
        if not takes_list(ask, block, len(self.vectors)) or block.vectors.ndim > 2 or self.column_shards is not None:
            return None
        index, real = block.positives(self.row_labels)
        if index.shape[1] * ENTRIES > len(block):
            return None
        return reduce_listed(ask, self.at(index + first), block, (index, real), (self.row_labels, first))


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


def compare_in_tiles(
    vectors: Tensor, row_labels: Tensor | None, references: References, *, sphere: bool, normalise: bool, tiling: Tiling
) -> TiledComparison:
    """The tiled comparison of rows with references; vectors that are both share one reader."""
    row = make_side(vectors, row_labels, normalise)

    def side(block: Block) -> Side:
        if block.vectors is vectors and same_labels(block.labels, row_labels):
            return row
        return make_side(block.vectors, block.labels, normalise)

    columns = tuple(side(block) for block in references)
    return TiledComparison(
        vectors,
        row_labels,
        references,
        sphere,
        context=current_context(),
        row_side=row,
        column_sides=columns,
        tiling=tiling,
    )


def as_tiled(p: Comparison) -> TiledComparison:
    """The comparison in tiles, whichever back-end it has."""
    if isinstance(p, TiledComparison):
        return p
    tiling = DEFAULT if p.vectors.is_cpu else DEVICE_TILE
    return compare_in_tiles(p.vectors, p.row_labels, p.references, sphere=p.on_sphere, normalise=False, tiling=tiling)


def replace_by_tiles(p: Comparison) -> TiledComparison:
    """A dense comparison in tiles, with all that belongs to it."""
    q = as_tiled(p)
    return replace(
        q,
        communicator=p.communicator,
        column_shards=p.column_shards,
        row_weights=p.row_weights,
        column_weights=p.column_weights,
        context=p.context,
    )


def make_side(vectors: Tensor, labels: Tensor | None, normalise: bool) -> Side:
    """Vectors as a reader in the order of their labels; classes are in order already and are not moved."""
    order, counting = None, None
    names = None if labels is None else on_host(labels)
    if labels is not None and names is not None and len(labels) > 1:
        first, final = int(names[0]), int(names[-1])
        if bool((names[1:] < names[:-1]).any()):
            order = labels.argsort(stable=True)
        elif final - first == len(names) - 1 and bool((names[1:] > names[:-1]).all()):
            counting = first
    ordered = permute_optional(labels, order)
    if order is not None and names is not None:
        names = ordered if labels is names else names.sort().values
    return Side(read_in_tiles(vectors, normalise, order), ordered, counting, names=names)


def is_in_band(block: Block, row_labels: Tensor | None) -> bool:
    """Whether columns outside a row tile's band are all negatives: no image has two labels."""
    if block.mirrored or block.own is None or block.ids is None or row_labels is None or block.labels is None:
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
