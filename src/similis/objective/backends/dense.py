"""A comparison as one dense matrix, with PyTorch's own gradients.

Small matrices take a few plain operators. Larger ones take fewer passes: log-sum-exps have their gradient written out,
and few positives are taken out of the matrix first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from similis.objective.backends.dense_or_tiled import fits_dense
from similis.objective.backends.listed_positives import list_columns, list_positives, reduce_listed
from similis.objective.backends.protocol import Backend, Hinges, Operands
from similis.objective.terms.distances import Geometry, products, squares
from similis.objective.terms.gradients import with_signature
from similis.objective.terms.reductions import DIRECT, Reduced, as_terms, evaluate
from similis.objective.terms.tile import Ask, Tile
from similis.sphere import full_precision, unit, widen

# Anchors x columns x columns up to which all triplets are made at once. Measured on one busy core, four images of a
# class, forward and backward, against sorting: 5 ms against 16 at B = 8, 6 against 14 at 32, 13 against 21 at 48, 24
# against 18 at 64.
CUBE = 2**17


@dataclass(frozen=True, eq=False)
class Dense:
    """Rows and blocks of columns, each block one matrix.

    Attributes:
        operands: what is compared.
        vectors: rows (r, D) as they are compared.
        blocks: the same of each block's columns.
        in_tiles: makes the same comparison in tiles, for what has no room or is quicker there; None where nobody may.
        kept: of each block, what several reductions share: its tile, the mask of a set, what a function makes of it.
    """

    operands: Operands
    vectors: Tensor
    blocks: list[Tensor]
    in_tiles: Callable[[Operands], Backend] | None = None
    kept: dict[tuple[int, object], Any] = field(default_factory=dict, repr=False)

    def rows(self) -> Tensor:
        """Row vectors (r, D)."""
        return self.vectors

    def columns(self, number: int) -> Tensor:
        """The vectors of a block."""
        return self.blocks[number]

    def take(self, number: int, index: Tensor) -> Tensor:
        """Vectors of a block at row numbers."""
        return self.blocks[number][index]

    def own(self, number: int, fn: Callable[[Tensor], Tensor]) -> Tensor:
        """A value of every vector of a block for itself."""
        return fn(self.blocks[number])

    def reduce(self, ask: Ask, number: int, first: int) -> tuple[list[str], list[Reduced]]:
        """The kinds and values of what is asked, over one block whose first column has that number."""
        if self.in_tiles is not None and not self.vectors.is_cpu and not self._has_room(ask):
            return self._tiled().reduce(ask, number, first)
        block, labels = self.operands.references.blocks[number], self.operands.row_labels
        tile = self.kept.get((number, "tile")) or self.tile(number, first)
        if tile.s.numel() > DIRECT:
            listed = list_positives(ask, block, labels)
            if listed is not None:
                return reduce_listed(ask, list_columns(tile, listed[0]), block, listed, (labels, first))
        if ask.rows or ask.cols or ask.dots or torch.compiler.is_compiling():
            values = [v.unsqueeze(1) for v in ask.rows] + [v.unsqueeze(0) for v in ask.cols]
            values += [products(widen(vectors), self.blocks[number]) for vectors in ask.dots]
            terms = as_terms(ask.fn(tile, *values))
        else:  # one function asked of two sets is one matrix
            if (number, ask.fn) not in self.kept:
                self.kept[number, ask.fn] = as_terms(ask.fn(tile))
            terms = self.kept[number, ask.fn]
        if (number, ask.which) not in self.kept:
            self.kept[number, ask.which] = block.members(ask.which, labels)
        mask: Tensor | None = self.kept[number, ask.which]
        kinds: list[str] = []
        found: list[Reduced] = []
        for term in terms:
            kinds.append(term.kind)
            found.append(evaluate(term, first, mask))
        return kinds, found

    def tile(self, number: int, first: int) -> Tile:
        """A whole block, whose first column has that number, as one tile; made once."""
        rows, columns, block = self.vectors, self.blocks[number], self.operands.references.blocks[number]
        if rows is columns and not torch.compiler.is_compiling():
            similar: Tensor = Gram.apply(rows)  # type: ignore[no-untyped-call]
        else:
            similar = rows @ columns.T if columns.ndim == 2 else products(rows, columns)
        tile = Tile(
            s=similar,
            squares=None if self.operands.on_sphere else (squares(rows)[:, None], squares(columns)[None]),
            grade=1.0 if block.relation is None else block.relation,
            once=0.5 if block.mirrored else 1.0,
            row_labels=self.operands.row_labels,
            column_labels=block.labels,
            columns=torch.arange(first, first + columns.shape[0], device=rows.device)[None],
        )
        self.kept[number, "tile"] = tile
        return tile

    def hinges(self, geometry: Geometry, margin: float) -> Hinges | None:
        """All triplets at once where there are few; else sorted, in tiles."""
        rows, references = len(self.vectors), self.operands.references
        wide = sum(map(len, self.blocks))
        if rows * wide * wide > CUBE:
            return None if self.in_tiles is None else self._tiled().hinges(geometry, margin)
        parts: list[list[Any]] = [[], [], []]
        for number, block in enumerate(references.blocks):
            parts[0].append(self.tile(number, 0).far(geometry))
            parts[1].append(block.members("pos", self.operands.row_labels))
            parts[2].append(block.members("neg", self.operands.row_labels))
        far, positive, negative = map(torch.cat, parts, (1, 1, 1))
        there = positive[:, :, None] & negative[:, None, :]
        hinge = torch.where(there, torch.relu(far[:, :, None] - far[:, None, :] + margin), 0.0)
        return Hinges(hinge.sum((1, 2)), there.sum((1, 2)), (hinge > 0).sum((1, 2)))

    def _has_room(self, ask: Ask) -> bool:
        """Whether a device has room for the matrix, with the trailing axis that values of rows give it."""
        deep = [v.shape[1:].numel() for v in ask.rows] + [v.shape[1:-1].numel() for v in ask.dots]
        rows = self.vectors
        return fits_dense(len(rows), sum(map(len, self.blocks)), max([1, *deep]), rows.device)

    def _tiled(self) -> Backend:
        """The same comparison in tiles, made once, of vectors that are where they shall be."""
        if (0, "in tiles") not in self.kept:
            assert self.in_tiles is not None
            blocks = iter(self.blocks)
            references = self.operands.references.each(lambda _: next(blocks))
            given = self.operands._replace(vectors=self.vectors, references=references, normalise=False)
            self.kept[0, "in tiles"] = self.in_tiles(given)
        found: Backend = self.kept[0, "in tiles"]
        return found


class Gram(torch.autograd.Function):
    """Products of rows with themselves, X X^T. One product for the gradient, (G + G^T) X, instead of two."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(rows: Tensor) -> Tensor:
        """(r, D) -> (r, r)."""
        return rows @ rows.T

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        """Keep the rows."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """(r, r) -> (r, D), in full precision also inside autocast."""
        rows: Tensor = ctx.saved_tensors[0]
        with full_precision(rows):
            return (gradients[0] + gradients[0].T) @ rows


def make_dense(operands: Operands, in_tiles: Callable[[Operands], Backend] | None = None) -> Dense:
    """The dense back-end of a comparison; vectors that are rows and columns are put on the sphere once."""
    change = unit if operands.normalise else widen
    given, rows = operands.vectors, change(operands.vectors)
    blocks: list[Tensor] = []
    for block in operands.references.blocks:
        blocks.append(rows if block.vectors is given else change(block.vectors))
    return Dense(operands, rows, blocks, in_tiles)
