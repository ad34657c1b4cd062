"""What a model answers, and how items become entries of its gallery."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from similis.data.manifest import Manifest
from similis.figures.explanation import draw_explanation
from similis.model.encoding import Encoder
from similis.networks.explanation import similarity_maps
from similis.retrieval.classification import classify_neighbors
from similis.retrieval.gallery import Contents, Entry, entries_of
from similis.values import Neighbors, UserError


class Hit(NamedTuple):
    """An answer of a search: id and label of an image of the gallery, and its cosine similarity to the query."""

    id: str
    label: str | None
    similarity: float


class Answer(NamedTuple):
    """A classification.

    Attributes:
        label: of the class; None for unknown.
        similarity: of the nearest image of the class that won the vote.
        nearest: the label that won the vote, also where the answer is unknown.
        note: why the answer is unknown or another one than the first hit of a search has; empty if neither is so.
    """

    label: str | None
    similarity: float
    nearest: str | None = None
    note: str = ""


class Explanation(NamedTuple):
    """Why two images are similar: their similarity, the part (2, h, w) of each place in it, and a matplotlib figure."""

    similarity: float
    parts: Tensor
    picture: Any


def explain_pair(encoder: Encoder, a: Any, b: Any, names: Sequence[str], similarity: float | None) -> Explanation:
    """How similar two images are, and where.

    Args:
        encoder: of the model.
        a: an item.
        b: another one.
        names: of the two, below their pictures.
        similarity: of the search that found them, where one of them is only a thumbnail; None for that of the two.
    """
    pixels, images = encoder.prepare([a, b])
    own, parts = similarity_maps(encoder.embedder, images)
    title = f"cosine similarity {own:.3f}; lit where the images are similar"
    if similarity is not None:
        title = f"similarity {similarity:.2f}; lit where the images are similar, by the stored thumbnail"
    return Explanation(own, parts, draw_explanation(pixels, parts, names=names, title=title))


def check_names(count: int, labels: Any, ids: Any) -> tuple[list[str | None], list[str | None]]:
    """The label of each of ``count`` items as text, from one for all or one for each, and its id where it has one."""
    if labels is None or isinstance(labels, str | Integral):
        labels = [labels] * count
    named = labels.tolist() if isinstance(labels, Tensor | np.ndarray) else list(labels)
    called = [None] * count if ids is None else list(ids)
    if not len(named) == len(called) == count:
        raise UserError(f"{count} items, {len(named)} labels and {len(called)} ids given; give one for each item")
    named, called = ([None if each is None else str(each) for each in given] for given in (named, called))
    return named, called


def data_entries(data: Manifest, labels: Any, ids: Any) -> list[Entry]:
    """The images of a data set as entries, with these labels and ids instead of its own where they are given."""
    own = entries_of(data)
    labels = [entry.label for entry in own] if labels is None else labels
    named, called = check_names(len(own), labels, [entry.id for entry in own] if ids is None else ids)
    return item_entries([entry.id for entry in own], named, called, [entry.digest for entry in own])


def item_entries(
    items: Sequence[Any], labels: Sequence[str | None], ids: Sequence[str | None], digests: Sequence[str]
) -> list[Entry]:
    """Items as entries; an id of None is the path, or a part of the hash."""
    rows = zip(items, labels, ids, digests, strict=True)
    return [Entry(default_id(item, digest) if own is None else own, label, digest) for item, label, own, digest in rows]


def default_id(item: Any, digest: str) -> str:
    """Default id of an item: its path, or a part of its hash."""
    if isinstance(item, str | Path):
        return str(item)
    if not digest:
        raise UserError("an embedding has no name of its own; give ids")
    return digest[:16]


def name_queries(
    near: Neighbors, labels: Tensor, names: Sequence[str], limit: float | None, sizes: Tensor | None = None
) -> list[Answer | None]:
    """The answer to each query by its neighbours; None for one that has none.

    Args:
        near: (Q, k) of a search among labelled images.
        labels: (N,) number of the label of each image.
        names: the label of each number.
        limit: unknown is a query whose nearest image has a smaller similarity; None names every query.
        sizes: how many images each label has, if that is known.
    """
    found = classify_neighbors(near, labels, sizes)
    first, nearest = labels[near.index[:, 0].clamp(min=0)].tolist(), near.similarity[:, 0].tolist()
    return [
        None if label < 0 else answer(names[label], score, Hit("", names[own], similarity), limit)
        for label, score, own, similarity in zip(
            found.labels.tolist(), found.scores.tolist(), first, nearest, strict=True
        )
    ]


def answer(winner: str, similarity: float, first: Hit, limit: float | None) -> Answer:
    """The answer to a vote, with a note where it is not the label of the first hit."""
    told = f"the most similar image is of {first.label!r} with a similarity of {first.similarity:.2f}"
    if limit is not None and first.similarity < limit:
        return Answer(None, similarity, winner, f"{told}; known images have {limit:.2f} or more")
    if winner != first.label:
        return Answer(winner, similarity, winner, f"{told}; {winner!r} has more near ones for its number of images")
    return Answer(winner, similarity, winner)


def hits(held: Contents, rows: Sequence[int], similarity: Sequence[float]) -> list[Hit]:
    """One row of a search as hits."""
    return [Hit(*held.entry(row), value) for row, value in zip(rows, similarity, strict=True) if row >= 0]
