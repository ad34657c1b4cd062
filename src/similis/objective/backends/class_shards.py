"""Columns that are shared out over ranks, as classes may be: what is known on each of them, joined."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.context import Partition
from similis.objective.terms.reductions import Reduced, Top, merge, safe_lse


def reduce_across_ranks(kind: str, part: Reduced, columns: Partition) -> Reduced:
    """The reduction over the columns of all processes, from that over the columns of each."""
    one_each = (1,) * len(columns.counts)
    gather = columns.communicator.gather
    if isinstance(part, Top):
        values, index = gather(part.values[None], one_each), gather(part.index[None], one_each)
        found: Reduced = Top(values[0], index[0])
        for more in zip(values[1:], index[1:], strict=True):
            found = merge("top", found, Top(*more))
        return found
    if kind == "total":
        return columns.communicator.sum(part)
    return safe_lse(gather(part[None], one_each).transpose(0, 1))


def sum_from_owner(values: Tensor, index: Tensor, columns: Partition) -> Tensor:
    """Values (..., m) of columns ``index``, right at the process that owns the column, at all processes."""
    mine = (index >= columns.first) & (index < columns.first + columns.own)
    return columns.communicator.sum(torch.where(mine.view(*mine.shape, *[1] * (values.ndim - mine.ndim)), values, 0.0))
