"""Which rows ask and which answer: of one set, of two sets, or of the shards of several ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.retrieval.embed import as_embedded
from similis.values import Communicator, Embedded, Neighbors, UserError


class Rows(NamedTuple):
    """Rows of one set: those that ask (Q,), those that answer (G,), and the group of each of its rows (N,)."""

    embedded: Embedded
    asking: Tensor
    answering: Tensor
    groups: Tensor | None


def join_gallery(asked: Embedded, given: Any, *, apart: bool) -> tuple[Embedded, Tensor, Tensor]:
    """Queries and a gallery of their own as one set, and the row numbers of either.

    Args:
        asked: the queries.
        given: the gallery: an ``Embedded``, or (vectors, labels).
        apart: whether ids mean nothing, so that no row of the gallery is a query itself.
    """
    other = given if isinstance(given, Embedded) else as_embedded(*given)
    if asked.vectors.shape[1:] != other.vectors.shape[1:] or asked.labels.shape[1:] != other.labels.shape[1:]:
        raise UserError(
            f"queries {tuple(asked.vectors.shape)} with labels {tuple(asked.labels.shape)} and a gallery "
            f"{tuple(other.vectors.shape)} with labels {tuple(other.labels.shape)} given; they must fit each other"
        )
    whole = Embedded(*(torch.cat([mine, theirs.to(mine.device)]) for mine, theirs in zip(asked, other, strict=True)))
    if apart:
        whole = whole._replace(ids=torch.arange(len(whole.vectors)))
    number = torch.arange(len(whole.vectors))
    return whole, number[: len(asked.vectors)], number[len(asked.vectors) :]


def join_shards(rows: Rows, ranks: Communicator, *, apart: bool) -> Rows:
    """The rows of all ranks, of which this rank asks with its part of the queries.

    Args:
        rows: the shard of this rank.
        ranks: that have one shard each.
        apart: whether ids mean nothing and are made anew.
    """
    counts = ranks.counts(len(rows.embedded.vectors), "evaluate")
    whole = Embedded(*(ranks.gather(part, counts) for part in rows.embedded))
    if apart:
        whole = whole._replace(ids=torch.arange(len(whole.vectors)))
    first = sum(counts[: ranks.rank])
    asking, answering = (gather_any(part.cpu() + first, ranks) for part in (rows.asking, rows.answering))
    if len(asking) >= ranks.world:
        asking = torch.tensor_split(asking, ranks.world)[ranks.rank]
    return Rows(whole, asking, answering, None if rows.groups is None else ranks.gather(rows.groups, counts))


def join_answers(
    values: dict[str, Tensor], matches: Tensor, near: Neighbors, asking: Tensor, ranks: Communicator
) -> tuple[dict[str, Tensor], Tensor, Neighbors, Tensor]:
    """What each rank found for its queries, for all of them on every rank."""
    every = gather_any(asking, ranks)
    if len(torch.unique(every)) < len(every):  # fewer queries than ranks: each has asked them all
        return values, matches, near, asking
    found = {name: gather_any(part, ranks) for name, part in values.items()}
    return found, gather_any(matches, ranks), Neighbors(*(gather_any(part, ranks) for part in near)), every


def gather_any(rows: Tensor, ranks: Communicator) -> Tensor:
    """Rows of all ranks, however many each has."""
    return ranks.gather(rows, ranks.counts(len(rows)))
