"""Vectors of classes against vectors of classes."""

from __future__ import annotations

from torch import Tensor

from similis.objective.backends.protocol import Operands
from similis.objective.comparison.compare import Comparison, build_comparison, class_numbers
from similis.objective.context import Partition, current_context
from similis.objective.host_copies import known_on_host, on_host
from similis.objective.references import Block, References


def compare_classes(rows: Tensor, columns: Tensor) -> Comparison:
    """Vectors of classes against vectors of classes, taken as they are: row c and column c are of one class.

    In a distributed context both are this rank's share; the columns are gathered.

    Args:
        rows: (C, D), or (C, K, D) for K rows of each class.
        columns: (C, D).
    """
    context = current_context()
    share = context.shards
    if share is None and context.communicator is not None:
        share = Partition(context.communicator, context.communicator.counts(len(columns)))
    names = class_numbers(rows, share)
    if rows.ndim == 3:
        rows, names = rows.flatten(0, 1), repeat_names(names, rows.shape[1])
    every = columns if share is None else share.gather(columns)
    block = Block(every, class_numbers(every, None))
    operands = Operands(rows, names, References((block,)), on_sphere=True, normalise=False)
    return build_comparison(operands, context, communicator=None if share is None else share.communicator)


def repeat_names(names: Tensor, times: int) -> Tensor:
    """Each name so many times in a row, on the host too."""
    made = names.repeat_interleave(times)
    return made if made.is_cpu else known_on_host(made, on_host(names).repeat_interleave(times))
