"""Losses with two sides: queries compared with documents of another network, or of another kind, and hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from similis.labels import encode_labels, is_integers, list_labels
from similis.objective.batch import Side, check_embeddings, check_labels
from similis.objective.context import Partition, current_context
from similis.objective.host_copies import gather_integers, move_integers
from similis.objective.references import Block, Documents, References
from similis.registry import LossEntry, losses
from similis.sphere import widen
from similis.values import UserError

NO_LABEL = torch.iinfo(torch.int64).min  # of a hard negative: that of no query

Compared = tuple[Tensor, Tensor, References]  # rows, their labels, what they are compared with


def encode_sides(
    entry: LossEntry, learned: Iterable[Tensor], encode: Callable[[Any], Tensor], labels: Any, side: Side
) -> tuple[Tensor | None, Side]:
    """Labels of both sides as tensors in the same numbers; raises where a loss does not compare samples."""
    if not entry.memory or entry.family not in ("pair", "triplet"):
        fitting = ", ".join(e.name for e in losses if e.memory and e.family in ("pair", "triplet"))
        raise UserError(f"{entry.name} compares samples with classes and takes no documents=; these do: {fitting}")
    if labels is None and any(value.ndim for value in learned):
        raise UserError(f"{entry.name} learns a value for each class; pass labels= with documents=")
    if side.labels is None and (labels is None or isinstance(labels, Tensor)):
        return labels, side._replace(labels=labels)
    if labels is None or isinstance(labels, Tensor) or isinstance(side.labels, Tensor):
        named = labels if side.labels is None else side.labels
        return number_labels(labels, "labels"), side._replace(labels=number_labels(named, "document_labels"))
    own = list_labels(labels)
    both = encode([*own, *list_labels(own if side.labels is None else side.labels)])
    return both[: len(own)], side._replace(labels=both[len(own) :])


def number_labels(labels: Any, name: str) -> Tensor | None:
    """Labels beside a tensor of labels: a tensor too, or a list of integers."""
    if labels is None or isinstance(labels, Tensor):
        return labels
    if not is_integers(values := list_labels(labels)):
        raise UserError(f"{name} are {type(values[0]).__name__} and the others a tensor; pass both as lists")
    return encode_labels(values)


def document_references(
    queries: Tensor, labels: Tensor | None, side: Side, memory: Block | None = None
) -> tuple[Tensor, References]:
    """Labels of the queries, and the other side as their references; that of all ranks in a distributed context.

    Args:
        queries: (B, D) of this rank.
        labels: (B,); None where document i belongs to query i alone.
        side: documents and hard negatives.
        memory: rows that come after them.
    """
    documents, given = side.documents, labels
    check_sides(queries, labels, side)
    rows, columns = share_rows(queries, "queries"), share_rows(documents, "documents")
    if labels is None:
        first = 0 if rows is None else rows.first
        labels = torch.arange(first, first + len(queries), device="cpu")
    labels = named = move_integers(check_labels(labels, len(queries), "queries"), queries)
    if side.labels is not None and side.labels is not given:
        named = move_integers(check_labels(side.labels, len(documents), "documents"), documents)
    vectors, names = (documents, named) if columns is None else gather_labelled(documents, named, columns)
    if not len(vectors):
        raise UserError("there are no documents; pass at least one")
    blocks = [Block(vectors, names)]
    if side.negatives is not None and len(block := negative_block(queries, side.negatives)):
        blocks.append(block)
    if memory is not None:
        blocks.append(memory)
    return labels, References(tuple(blocks), rows, Documents(documents, named))


def check_sides(queries: Tensor, labels: Tensor | None, side: Side) -> None:
    """Raise unless both sides have vectors of one size, and a label for each row where the numbers differ."""
    check_embeddings(queries, {})
    documents, dim = side.documents, queries.shape[1]
    for name, given in (
        ("documents", documents),
        ("negatives", documents if side.negatives is None else side.negatives),
    ):
        if not isinstance(given, Tensor) or widen(given[:0]).dtype != widen(queries[:0]).dtype:
            kind = given.dtype if isinstance(given, Tensor) else type(given).__name__
            raise UserError(f"{name} are {kind} and the queries {queries.dtype}; pass tensors of one type")
    if documents.ndim != 2 or documents.shape[1] != dim:
        raise UserError(f"documents have shape {tuple(documents.shape)}; pass (M, {dim}), the dimension of the queries")
    if labels is None and side.labels is not None:
        raise UserError("document_labels are given without labels; pass labels= of the queries too")
    if labels is not None and labels.ndim == 2:
        raise UserError("documents go with labels of shape (B,), not with a relation matrix; name groups by labels")
    if len(documents) != len(queries) and (side.labels is None or side.labels is labels):
        raise UserError(
            f"there are {len(queries)} queries and {len(documents)} documents; pass one document for each query, or "
            "labels= and document_labels= that say which belong together"
        )


def negative_block(queries: Tensor, negatives: Tensor) -> Block:
    """Hard negatives as columns: (N, D) of all ranks for every query, (B, K, D) of this rank for its own row."""
    if negatives.ndim not in (2, 3) or negatives.shape[-1] != queries.shape[1]:
        raise UserError(
            f"negatives have shape {tuple(negatives.shape)}; pass (N, {queries.shape[1]}), shared by all queries, or "
            f"({len(queries)}, K, {queries.shape[1]}), K for each query"
        )
    if negatives.ndim == 2:
        joint = share_rows(negatives, "negatives")
        vectors = negatives if joint is None else joint.gather(negatives)
        return Block(vectors, leave_unlabelled(vectors))
    if len(negatives) != len(queries):
        raise UserError(
            f"negatives have {len(negatives)} rows for {len(queries)} queries; pass shape ({len(queries)}, K, D)"
        )
    vectors, places = negatives.flatten(0, 1), torch.arange(len(queries), device="cpu")
    own = places.repeat_interleave(negatives.shape[1])
    places, own = move_integers(places, queries), move_integers(own, queries)
    return Block(vectors, leave_unlabelled(vectors), places, own, private=True)


def leave_unlabelled(vectors: Tensor) -> Tensor:
    """Labels that no query has."""
    return move_integers(torch.full((len(vectors),), NO_LABEL, device="cpu"), vectors)


def share_rows(rows: Tensor, what: str) -> Partition | None:
    """How rows are spread over ranks; None where this process is alone."""
    communicator = current_context().communicator
    if communicator is None:
        return None
    return Partition(communicator, communicator.counts(len(rows), f"{what} of {tuple(rows.shape[1:])}"))


def gather_labelled(vectors: Tensor, labels: Tensor, joint: Partition) -> tuple[Tensor, Tensor]:
    """Vectors and labels of all ranks."""
    return joint.gather(vectors), gather_integers(labels, joint)


def swap_sides(queries: Tensor, labels: Tensor, references: References | None) -> Compared | None:
    """Documents of this rank with their labels, and the queries of all ranks as their references; None for one side."""
    if references is None or references.documents is None:
        return None
    joint = references.joint
    vectors, names = (queries, labels) if joint is None else gather_labelled(queries, labels, joint)
    return *references.documents, References((Block(vectors, names),))
