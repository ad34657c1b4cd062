"""The vectors of a comparison: rows and columns, similarities of listed pairs, values of a vector for itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from similis.objective.backends.protocol import Backend
from similis.objective.class_shards import sum_from_owner
from similis.objective.context import Partition
from similis.objective.references import References
from similis.objective.terms.distances import Similarities, squares
from similis.objective.terms.pair_products import pair_products, similarities_at
from similis.sphere import full_precision
from similis.values import UserError


@dataclass(frozen=True)
class ComparedVectors:
    """Rows (r, D) with labels, and the references that they are compared with.

    With ``column_shards`` every rank has all rows and its share of the columns (classes).
    """

    vectors: Tensor
    row_labels: Tensor | None
    references: References
    on_sphere: bool
    backend: Backend
    column_shards: Partition | None = None

    @property
    def rows(self) -> Tensor:
        """Row vectors (r, D), on the sphere if the comparison is."""
        return self.backend.rows()

    def columns(self) -> list[Tensor]:
        """The vectors of each block of references, on the sphere if the comparison is."""
        return [self.backend.columns(number) for number in range(len(self.references.blocks))]

    @property
    def batch(self) -> int:
        """Rows of all ranks."""
        joint = self._rows_among_columns()
        return len(self.vectors) if joint is None else joint.size

    @property
    def places(self) -> Tensor:
        """Numbers (r,) of the rows in the global batch: each row's column among the live references."""
        joint = self._rows_among_columns()
        return torch.arange(len(self.vectors), device=self.vectors.device) + (0 if joint is None else joint.first)

    def as_columns(self, values: Tensor) -> Tensor:
        """Values of rows (r,) as values of the columns of the live batch, with gradient."""
        joint = self._rows_among_columns()
        return values if joint is None else joint.gather(values)

    def _rows_among_columns(self) -> Partition | None:
        """How the rows are spread over ranks, where they are columns too; raises where the columns are documents."""
        if self.references.documents is not None:
            raise UserError("this form pairs samples of one batch and takes no documents=; choose another form or loss")
        return self.references.joint

    def positives(self) -> tuple[Tensor, Tensor]:
        """Column numbers (r, m) of each row's positives, and which of them are real (the rest pads)."""
        index, real, first = [], [], 0
        for block in self.references:
            found, ok = block.positives(self.row_labels)
            index.append(found + first)
            real.append(ok)
            first += len(block)
        return torch.cat(index, 1), torch.cat(real, 1)

    def take(self, index: Tensor) -> Tensor:
        """Reference vectors at column numbers; -1 gives some vector, to be masked by the caller."""
        vectors = self._here(index)
        return vectors if self.column_shards is None else sum_from_owner(vectors, index, self.column_shards)

    def _here(self, index: Tensor) -> Tensor:
        """Reference vectors at column numbers, right for the columns that this rank has."""
        first = 0 if self.column_shards is None else self.column_shards.first
        out: Tensor | None = None
        for number, block in enumerate(self.references):
            vectors = self.backend.take(number, (index - first).clamp(0, max(len(block) - 1, 0)))
            inside = (index >= first).view(*index.shape, *[1] * (vectors.ndim - index.ndim))
            out = vectors if out is None else torch.where(inside, vectors, out)
            first += len(block)
        return cast(Tensor, out)

    def own(self, fn: Callable[[Tensor], Tensor]) -> Tensor:
        """A value of every reference for itself: ``fn`` of vectors (c, D) or (c, K, D) gives (c,)."""
        with full_precision(self.vectors):
            return torch.cat([self.backend.own(number, fn) for number in range(len(self.references.blocks))])

    def at(self, index: Tensor, anchors: Tensor | None = None) -> Similarities:
        """Similarity of each row with its columns ``index``, (r,) or (r, m); of K vectors, one more axis.

        With ``anchors`` (T,), of row ``anchors[t]`` with column ``index[t]``. Memory follows the number of
        pairs and the vectors that there are, not pairs times D.
        """
        with full_precision(self.vectors):
            if index.numel() > max(len(self.vectors), len(self.references)):
                return similarities_at(self.rows, self._all_columns(), index, self.on_sphere, anchors)
            rows = self.rows if anchors is None else self.rows[anchors]
            vectors = self._here(index)
            wide = rows.view(len(rows), *[1] * (vectors.ndim - 2), rows.shape[-1])
            norms = None if self.on_sphere else squares(wide) + squares(vectors)
            similar = (wide * vectors).sum(-1)
            if self.column_shards is not None:
                similar = sum_from_owner(similar, index, self.column_shards)
                norms = None if norms is None else sum_from_owner(norms, index, self.column_shards)
            return Similarities(similar, norms)

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
