"""What a model answers, and how items become entries of its gallery."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from similis.data.manifest import Manifest
from similis.retrieval.gallery import Contents, Entry, search_gallery
from similis.values import UserError


class Hit(NamedTuple):
    """An answer of a search: id and label of an image of the gallery, and its cosine similarity to the query."""

    id: str
    label: str | None
    similarity: float


class Answer(NamedTuple):
    """A classification: the label, None for unknown, and the similarity of the nearest image that voted for it.

    ``nearest`` is the label that the vote went to, also where even that is too far away to be believed.
    """

    label: str | None
    similarity: float
    nearest: str | None = None


class Explanation(NamedTuple):
    """Why two images are alike: their similarity, the part (2, h, w) of each place in it, and a matplotlib figure."""

    similarity: float
    parts: Tensor
    picture: Any


def entries_of(data: Manifest) -> list[Entry]:
    """The images of a data set as entries: path, class name, hash."""
    digests = data.values("content") if data.has("content") else [""] * len(data)
    paths = data.values("path") if data.has("path") else [str(row) for row in data.values("id")]
    return [Entry(*row) for row in zip(paths, data.values("class_name"), digests, strict=True)]


def default_id(item: Any, digest: str) -> str:
    """What an item is called if nobody says: its path, or a part of its hash."""
    if isinstance(item, str | Path):
        return str(item)
    if not digest:
        raise UserError("an embedding has no name of its own; give ids")
    return digest[:16]


def find_hits(
    held: Contents, vectors: Tensor, k: int, digests: Sequence[str] | None = None, label: str | None = None
) -> list[list[Hit]]:
    """For each vector (n, D) the k entries most like it; see :func:`similis.retrieval.gallery.search_gallery`."""
    near = search_gallery(held, vectors, k, digests, label)
    return [hits(held, *row) for row in zip(near.index.tolist(), near.similarity.tolist(), strict=True)]


def answer(nearest: str, similarity: float, limit: float | None) -> Answer:
    """The answer to a vote: unknown where the similarity is below a limit."""
    return Answer(nearest if limit is None or similarity >= limit else None, similarity, nearest)


def hits(held: Contents, rows: Sequence[int], similarity: Sequence[float]) -> list[Hit]:
    """One row of a search as hits."""
    pairs = [(held.entries[row], value) for row, value in zip(rows, similarity, strict=True) if row >= 0]
    return [Hit(entry.id, entry.label, value) for entry, value in pairs]
