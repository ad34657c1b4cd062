"""Classes that are spread over ranks: how, whose they are, and what the ranks know of them together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from similis.entries import LossEntry
from similis.objective.context import Partition, current_context, spread_evenly, use_context
from similis.objective.host_copies import gather_integers
from similis.objective.terms.gradients import scale_gradient
from similis.objective.terms.reductions import Reduced, Top, merge, safe_lse
from similis.values import UserError


def reduce_across_ranks(kind: str, part: Reduced, columns: Partition) -> Reduced:
    """The reduction over the columns of all ranks, from that over the columns of each."""
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
    """Values (..., m) of columns ``index``, right on the rank that owns the column, on all ranks."""
    mine = (index >= columns.first) & (index < columns.first + columns.own)
    return columns.communicator.sum(torch.where(mine.view(*mine.shape, *[1] * (values.ndim - mine.ndim)), values, 0.0))


def count_classes(proxies: Tensor) -> int:
    """Number of classes, those of other ranks included."""
    shards = current_context().shards
    return len(proxies) if shards is None else shards.size


def class_shares(proxies: Tensor) -> Partition | None:
    """How classes are shared out as anchors: as they are sharded, or evenly where every rank has all; None alone."""
    context = current_context()
    if context.shards is not None or context.communicator is None:
        return context.shards
    return Partition(context.communicator, spread_evenly(len(proxies), context.communicator.world))


def own_classes(values: Tensor) -> Tensor:
    """Values of classes (C, ...): those that are anchors on this rank."""
    share = class_shares(values)
    if share is None or current_context().shards is not None:
        return values
    return values[share.first : share.first + share.own]


def value_of_shards(
    entry: LossEntry, embeddings: Tensor, labels: Tensor, arguments: dict[str, Any], classes: Partition
) -> Tensor:
    """The loss of the samples of all ranks, here with this rank's share of the classes."""
    batch = current_context().partition(len(embeddings))
    if batch is None:
        raise UserError("the proxies are sharded over ranks; call the loss inside distributed(communicator)")
    for name in entry.learns:
        own = arguments.get(name)
        if isinstance(own, Tensor) and own.ndim > 1:
            # the value is formed once for each rank, but a shard has one owner
            arguments[name] = scale_gradient(own, 1 / classes.communicator.world)
    embeddings, labels = batch.gather(embeddings), gather_integers(labels, batch)
    with use_context(replace(current_context(), shards=classes, communicator=None)):
        value: Tensor = entry.function(embeddings, labels, **arguments)
    return value
