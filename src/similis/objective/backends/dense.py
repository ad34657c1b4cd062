"""Reductions of one dense tile over a set of columns, in as few passes over the matrix as they need.

The numbers are those of ``reductions``, which stays what a compiled graph uses: there passes cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from similis.objective.terms.gradients import far_below, row_lse
from similis.objective.terms.reductions import Reduced, Term, Top, align_mask, evaluate, restrict
from similis.objective.terms.references import Block, Set

AnyTensor = TypeVar("AnyTensor", Tensor, Tensor | None)

# Positives are taken out of a matrix of so many numbers, if they are at most this share of its columns.
ENTRIES, SHARE = 2**15, 1 / 8


@dataclass(frozen=True, eq=False)
class Columns:
    """A set of columns of each row in one block, in whichever form a reduction needs; each is made once.

    Attributes:
        block: the columns.
        which: the set.
        row_labels: (r,) labels of the rows; None with a relation.
        tile: (r, c, ...) values of the type that is reduced.
    """

    block: Block
    which: Set
    row_labels: Tensor | None
    tile: Tensor

    @cached_property
    def truth(self) -> Tensor | None:
        """(r, c) whether a column belongs to the set; None if all do."""
        return self.block.members(self.which, self.row_labels)

    @cached_property
    def listed(self) -> tuple[Tensor, Tensor] | None:
        """(r, m) column numbers that hold the set and which of them are real; None if they are many."""
        if self.which != "pos" or self.tile.numel() < ENTRIES:
            return None
        index, real = self.block.positives(self.row_labels)
        return (index, real) if index.shape[1] <= SHARE * len(self.block) else None

    @cached_property
    def outside(self) -> Tensor | None:
        """(r, m) numbers of the columns that do not belong to the set, some twice; None if they are many."""
        block = self.block
        sure = block.mirrored or block.own is None  # in a memory a row's own image may have another label
        if self.which != "neg" or block.relation is not None or not sure or self.tile.numel() < ENTRIES:
            return None
        index, real = block.alike(self.row_labels)
        few = index.shape[1] <= SHARE * len(block) and self.all_have_some(real)
        return torch.where(real, index, index[:, :1]) if few else None

    def all_have_some(self, real: Tensor) -> bool:
        """Whether every row has a column of its label; of a device the labels on the host tell."""
        if real.is_cpu or self.row_labels is None:
            return bool(real[:, 0].all())
        return bool((self.block.class_sizes(self.row_labels) > 0).all())

    @cached_property
    def one(self) -> Tensor | None:
        """1 inside and 0 outside, None if nothing is outside: a product with it is quicker than a choice."""
        return None if self.truth is None else self.truth.to(self.tile.dtype)

    @cached_property
    def bias(self) -> Tensor | None:
        """0 inside, outside a number far below all values; None if nothing is outside."""
        if self.truth is None:
            return None
        return torch.where(self.truth, self.tile.new_zeros(()), -far_below(self.tile))


def reduce_term(term: Term, columns: Columns, first: int) -> Reduced:
    """Reduce one term over a set of columns, the first of which has the number ``first``."""
    if columns.listed is not None:
        index, real = columns.listed
        short = term._replace(values=take_columns(term.values, index), where=take_columns(term.where, index))
        found = evaluate(restrict(short, real))
        return number_columns(found, index, first) if isinstance(found, Top) else found
    plain = term.where is None and term.values.is_floating_point() and term.values.shape[1]
    if term.kind == "top" or not plain:
        return evaluate(restrict(term, columns.truth), first)
    values, out = term.values, columns.outside
    if out is not None:
        out = out if values.ndim == 2 else out[..., None].expand(-1, -1, values.shape[2])
    if term.kind == "total":
        one = columns.one if out is None else None
        values = values if out is None else values.scatter(1, out, 0.0)
        return (values if one is None else values * align_mask(one, values)).sum(1)
    bias = columns.bias if out is None else None
    return row_lse(values, None if bias is None else align_mask(bias, values), out)


def take_columns(values: AnyTensor, index: Tensor) -> AnyTensor:
    """Values (r, c) or (r, c, K) at columns (r, m); nothing of nothing."""
    if values is None:
        return values
    return values.take_along_dim(index if values.ndim == 2 else index[..., None], 1)


def number_columns(found: Top, index: Tensor, first: int) -> Top:
    """A top among columns (r, m), with the numbers of these columns."""
    columns = index.gather(1, found.index.clamp(min=0)) + first
    return found._replace(index=torch.where(found.index < 0, -1, columns))
