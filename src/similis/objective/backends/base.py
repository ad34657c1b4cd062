"""Rows compared with references: the object that every loss is written against.

A loss asks for reductions over a set of each row: ``p.pos`` (positives), ``p.neg`` (negatives),
``p.others`` (all but self), ``p.every``. It hands over a function of a tile that reads like dense
code (``t.s``, ``t.d2``, ``t.d``) and gets one value per row back. No loss knows about tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from similis.objective.backends.choice import fits_dense
from similis.objective.backends.class_shards import reduce_across_ranks, sum_from_owner
from similis.objective.backends.dense import Columns, reduce_term
from similis.objective.backends.listed import list_columns, reduce_listed, takes_list
from similis.objective.context import LOCAL, Context, Partition
from similis.objective.terms.class_weights import weight_columns
from similis.objective.terms.distances import Similarities, products
from similis.objective.terms.gradients import full_precision
from similis.objective.terms.pair_products import pair_products, row_of_each
from similis.objective.terms.reductions import Reduced, evaluate, merge, restrict
from similis.objective.terms.references import Block, References, Set
from similis.objective.terms.tile import Ask, Tile, TileFunction, as_terms
from similis.sphere import widen
from similis.values import Communicator, UserError

Values = Sequence[Tensor]


@dataclass(frozen=True)
class Comparison:
    """Rows (r, D) with labels, and the references that they are compared with, as one dense matrix.

    With a ``communicator`` the rows are this process's share of all rows, and sums run over all of them.
    With ``column_shards`` every rank has all rows and its share of the columns (classes).
    ``row_weights`` (r,) and ``column_weights`` (M,) are what sampled classes count for; None for one each.
    ``context`` is the one in which the comparison was set up.
    """

    vectors: Tensor
    row_labels: Tensor | None
    references: References
    on_sphere: bool
    communicator: Communicator | None = None
    column_shards: Partition | None = None
    row_weights: Tensor | None = None
    column_weights: Tensor | None = None
    context: Context = LOCAL
    in_tiles: Callable[[Comparison], Comparison] | None = None  # where a device may have no room for the matrix
    # of each block, what several reductions share: its tile, the columns of a set, what a function makes of it
    kept: dict[tuple[int, object], Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def rows(self) -> Tensor:
        """Row vectors (r, D), on the sphere if the comparison is."""
        return self.vectors

    def columns(self) -> list[Tensor]:
        """The vectors of each block of references, on the sphere if the comparison is."""
        return [block.vectors for block in self.references]

    def gram(self) -> Tensor:
        """Sum over all references x of x x^T, (D, D)."""
        return torch.stack([vectors.T @ vectors for vectors in self.columns()]).sum(0)

    @property
    def batch(self) -> int:
        """Rows of all processes."""
        joint = self.references.joint
        return len(self.vectors) if joint is None else joint.size

    @property
    def places(self) -> Tensor:
        """Numbers (r,) of the rows among those of all processes, which are their columns in the live batch."""
        joint = self.references.joint
        return torch.arange(len(self.vectors), device=self.vectors.device) + (0 if joint is None else joint.first)

    def as_columns(self, values: Tensor) -> Tensor:
        """Values of rows (r,) as values of the columns of the live batch, with gradient."""
        joint = self.references.joint
        return values if joint is None else joint.gather(values)

    def pos(self, fn: TileFunction, rows: Values = (), cols: Values = (), dots: Values = ()) -> Any:
        """Reduce over the positives of each row, self left out."""
        return self.over("pos", fn, rows, cols, dots)

    def neg(self, fn: TileFunction, rows: Values = (), cols: Values = (), dots: Values = ()) -> Any:
        """Reduce over the negatives of each row."""
        return self.over("neg", fn, rows, cols, dots)

    def others(self, fn: TileFunction, rows: Values = (), cols: Values = (), dots: Values = ()) -> Any:
        """Reduce over all columns but the row itself."""
        return self.over("others", fn, rows, cols, dots)

    def every(self, fn: TileFunction, rows: Values = (), cols: Values = (), dots: Values = ()) -> Any:
        """Reduce over all columns, self included."""
        return self.over("every", fn, rows, cols, dots)

    def over(
        self,
        which: Set,
        fn: TileFunction,
        rows: Values = (),
        cols: Values = (),
        dots: Values = (),
    ) -> Any:
        """Reduce what ``fn(tile, *rows, *cols, *dots)`` returns over a set of columns.

        Args:
            which: the set of each row.
            fn: function of a tile; returns one term or a tuple of terms.
            rows: values of rows, (r,) or (r, m); arrive as (r, 1) or (r, 1, m).
            cols: values of columns, (M,); arrive as (1, M). One block of references only.
            dots: further row vectors (r, D) or (r, m, D); arrive as their products with the columns.

        Returns:
            One reduced value per term: (r,) or (r, m), or a :class:`~similis.objective.terms.reductions.Top`.
        """
        if cols and len(self.references.blocks) > 1:
            raise UserError("this loss needs values of its references and cannot use a memory; drop the memory")
        if self.in_tiles is not None and not self._fits(rows, dots):
            return self._once(0, "in tiles", lambda: self.in_tiles(self)).over(which, fn, rows, cols, dots)  # type: ignore[misc]
        ask = weight_columns(Ask(which, fn, rows, cols, dots), self.column_weights)
        result: list[Reduced] | None = None
        first = 0 if self.column_shards is None else self.column_shards.first
        kinds: list[str] = []
        with full_precision(self.vectors):
            for number, block in enumerate(self.references):
                kinds, part = self._reduced(ask, number, first)
                result = part if result is None else [merge(*x) for x in zip(kinds, result, part, strict=True)]
                first += len(block)
        if result is None:
            raise UserError("there are no references to compare with; pass at least one block")
        if self.column_shards is not None:
            result = [
                reduce_across_ranks(kind, part, self.column_shards) for kind, part in zip(kinds, result, strict=True)
            ]
        return result[0] if len(result) == 1 else tuple(result)

    def _fits(self, rows: Values, dots: Values) -> bool:
        """Whether a device has room for the matrix, with the trailing axis that values of rows give it."""
        deep = [v.shape[1:].numel() for v in rows] + [v.shape[1:-1].numel() for v in dots]
        return fits_dense(len(self.vectors), len(self.references), max([1, *deep]), self.vectors.device)

    def _reduced(self, ask: Ask, number: int, first: int) -> tuple[list[str], list[Reduced]]:
        """The kinds and values of what is asked, over one block whose first column has that number."""
        block = self.references.blocks[number]
        tile = self._once(number, "tile", lambda: self._tile(block, first))
        if takes_list(ask, block, len(self.vectors)):
            columns = self._once(number, ask.which, lambda: Columns(block, ask.which, self.row_labels, tile.s))
            if columns.listed is not None:
                near = list_columns(tile, columns.listed[0])
                return reduce_listed(ask, near, block, columns.listed, (self.row_labels, first))
        values = [v.unsqueeze(1) for v in ask.rows] + [v.unsqueeze(0) for v in ask.cols]
        values += [products(widen(vectors), block.vectors) for vectors in ask.dots]
        if torch.compiler.is_compiling():
            mask = block.members(ask.which, self.row_labels)
            plain = [restrict(term, mask) for term in as_terms(ask.fn(tile, *values))]
            return [term.kind for term in plain], [evaluate(term, first) for term in plain]
        # one function asked of two sets is one matrix
        made = ask.fn(tile, *values) if values else self._once(number, ask.fn, lambda: ask.fn(tile))
        terms = as_terms(made)
        kinds: list[str] = [term.kind for term in terms]
        columns = self._once(number, ask.which, lambda: Columns(block, ask.which, self.row_labels, tile.s))
        return kinds, [reduce_term(term, columns, first) for term in terms]

    def _once(self, number: int, what: object, make: Callable[[], Any]) -> Any:
        """Something of a block, made when it is first asked for: a product costs as much as all that follows it."""
        if (number, what) not in self.kept:
            self.kept[number, what] = make()
        return self.kept[number, what]

    def _tile(self, block: Block, first: int) -> Tile:
        """A whole block as one tile."""
        return Tile(
            s=products(self.rows, block.vectors),
            squares=None if self.on_sphere else (squares(self.rows)[:, None], squares(block.vectors)[None]),
            grade=1.0 if block.relation is None else block.relation,
            once=0.5 if block.mirrored else 1.0,
            row_labels=self.row_labels,
            column_labels=block.labels,
            columns=torch.arange(first, first + len(block), device=self.rows.device)[None],
        )

    def take(self, index: Tensor) -> Tensor:
        """Reference vectors at column numbers; -1 gives some vector, to be masked by the caller."""
        vectors = self._here(index)
        return vectors if self.column_shards is None else sum_from_owner(vectors, index, self.column_shards)

    def _here(self, index: Tensor) -> Tensor:
        """Reference vectors at column numbers, right for the columns that this process has."""
        first = 0 if self.column_shards is None else self.column_shards.first
        out: Tensor | None = None
        for number, block in enumerate(self.references):
            vectors = self._taken(number, (index - first).clamp(0, max(len(block) - 1, 0)))
            inside = (index >= first).view(*index.shape, *[1] * (vectors.ndim - index.ndim))
            out = vectors if out is None else torch.where(inside, vectors, out)
            first += len(block)
        return cast(Tensor, out)

    def _taken(self, number: int, index: Tensor) -> Tensor:
        return self.references.blocks[number].vectors[index]

    def own(self, fn: Callable[[Tensor], Tensor]) -> Tensor:
        """A value of every reference for itself: ``fn`` of vectors (c, D) or (c, K, D) gives (c,)."""
        with full_precision(self.vectors):
            return torch.cat([self._owned(number, fn) for number in range(len(self.references.blocks))])

    def _owned(self, number: int, fn: Callable[[Tensor], Tensor]) -> Tensor:
        return fn(self.references.blocks[number].vectors)

    def at(self, index: Tensor, anchors: Tensor | None = None) -> Similarities:
        """Likeness of each row with its columns ``index``, (r,) or (r, m); of K vectors, one more axis.

        With ``anchors`` (T,), of row ``anchors[t]`` with column ``index[t]``. Memory follows the number of
        pairs and the vectors that there are, not pairs times D.
        """
        with full_precision(self.vectors):
            if index.numel() > max(len(self.vectors), len(self.references)):
                return self._at_many(index, anchors)
            rows = self.rows if anchors is None else self.rows[anchors]
            vectors = self._here(index)
            wide = rows.view(len(rows), *[1] * (vectors.ndim - 2), rows.shape[-1])
            norms = None if self.on_sphere else squares(wide) + squares(vectors)
            similar = (wide * vectors).sum(-1)
            if self.column_shards is not None:
                similar = sum_from_owner(similar, index, self.column_shards)
                norms = None if norms is None else sum_from_owner(norms, index, self.column_shards)
            return Similarities(similar, norms)

    def _at_many(self, index: Tensor, anchors: Tensor | None) -> Similarities:
        """Likeness of more pairs than there are vectors."""
        rows, columns, row = self.rows, self._all_columns(), row_of_each(index, anchors)
        norms = None
        if not self.on_sphere and torch.compiler.is_compiling() and anchors is None:
            # a plain index adds its gradients by atomics, on which Inductor fails with two threads or more
            norms = squares(rows)[:, None] + squares(columns).expand(len(index), -1).take_along_dim(index, 1)
        elif not self.on_sphere:
            norms = squares(rows)[row] + squares(columns)[index]
        return Similarities(pair_products(rows, columns, row.flatten(), index.flatten()).view_as(index), norms)

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        """Products of the columns ``first`` (T,) with the columns ``second`` (T,), in the memory of :meth:`at`."""
        if len(first) <= len(self.references):
            return (self.take(first) * self.take(second)).sum(-1)
        columns = self._all_columns()
        with full_precision(self.vectors):
            return pair_products(columns, columns, first, second)

    def _all_columns(self) -> Tensor:
        """The vectors of all blocks in order."""
        blocks = self.columns()
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks)

    def positives(self) -> tuple[Tensor, Tensor]:
        """Column numbers (r, m) of each row's positives, and which of them are real (the rest pads)."""
        index, real, first = [], [], 0
        for block in self.references:
            found, ok = block.positives(self.row_labels)
            index.append(found + first)
            real.append(ok)
            first += len(block)
        return torch.cat(index, 1), torch.cat(real, 1)

    def sum(self, values: Tensor) -> Tensor:
        """Sum over all rows, of all processes."""
        local = values.sum()
        return local if self.communicator is None else self.communicator.sum(local)

    def mean(self, values: Tensor, where: Tensor | None = None) -> Tensor:
        """Mean over the rows for which ``where`` holds, by their weights; an attached 0 if it holds for none."""
        counts = torch.ones_like(values, dtype=torch.bool) if where is None else where
        if where is not None:
            values = torch.where(where, values, 0.0)
        if self.row_weights is None:
            return self.ratio(values, counts)
        return self.ratio(values * self.row_weights, counts * self.row_weights)

    def column_mean(self, values: Tensor) -> Tensor:
        """Mean of values (M,) of all columns, by their weights, over those of all processes."""
        weights = values.new_ones(()).expand_as(values) if self.column_weights is None else self.column_weights
        sums = torch.stack([(values * weights).sum(), weights.sum()])
        total = sums if self.column_shards is None else self.column_shards.communicator.sum(sums)
        return total[0] / total[1]

    def ratio(self, values: Tensor, counts: Tensor) -> Tensor:
        """Sum of values over sum of counts; 0 if nothing was counted."""
        number = self.sum(counts)
        return self.sum(values) / (number + (number == 0))


def squares(vectors: Tensor) -> Tensor:
    """Squared norms."""
    return vectors.square().sum(-1)
