"""A gallery: vectors with ids and labels that grows, shrinks and answers, from any thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import NamedTuple

import torch
from torch import Tensor

from similis.data.manifest import Manifest
from similis.retrieval.prepared_rows import GrownTensor, Numbered, Prefix, PreparedRows
from similis.retrieval.search import search
from similis.retrieval.similarity import GalleryRows, as_gallery, check_finite
from similis.values import Neighbors, UserError


class Entry(NamedTuple):
    """What a gallery knows of a vector: its id, its label (or None), the hash of what it was made from (or "")."""

    id: str
    label: str | None
    digest: str


class Labelled(NamedTuple):
    """The entries that have a label: their prepared vectors (M, D), numbers of labels (M,), and the labels."""

    rows: GalleryRows
    labels: Tensor
    names: Sequence[str]


@dataclass(frozen=True, eq=False)
class Contents:
    """A gallery at one moment: vectors (N, D), an entry for each, and the number of changes so far.

    What searches need of it is computed once and kept, also for what the gallery holds after more was added.
    """

    vectors: Tensor
    entries: Sequence[Entry]
    version: int
    prepared: PreparedRows = field(default_factory=PreparedRows, repr=False)
    computed: dict[Hashable, float] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.entries)

    def entry(self, row: int) -> tuple[str, str | None]:
        """Id and label of a row."""
        return self.entries[row].id, self.entries[row].label

    def once(self, key: Hashable, compute: Callable[[], float]) -> float:
        """A number about these contents, computed at the first call with this key."""
        if key not in self.computed:
            self.computed[key] = compute()
        return self.computed[key]

    @cached_property
    def rows(self) -> GalleryRows:
        """The vectors as a search compares them."""
        return self.prepared.rows(self.vectors)

    @cached_property
    def numbered(self) -> Numbered:
        """The labels as numbers, in the order of their first rows."""
        return self.prepared.number_labels(self.entries)

    def places(self, label: str) -> Tensor:
        """The rows with this label."""
        numbers, number = self.numbered.numbers, self.prepared.number(label)
        return numbers[:0] if number is None else (numbers == number).nonzero().flatten()

    def label_counts(self) -> dict[str, int]:
        """How many rows each label has."""
        return dict(zip(self.voters.names, self.label_sizes.tolist(), strict=True))

    def labelled_vectors(self) -> tuple[Tensor, Tensor, list[str]]:
        """Vectors (M, D) of the entries that have a label, their numbers (M,), and the label of each number."""
        return self.voters.rows.vectors, self.voters.labels, list(self.voters.names)

    @cached_property
    def label_sizes(self) -> Tensor:
        """How many voters each number of a label has."""
        labels = self.voters.labels
        return torch.bincount(labels[labels >= 0], minlength=len(self.voters.names))

    @property
    def all_vote(self) -> bool:
        """Whether every entry has a label."""
        return len(self.voters.labels) == len(self.entries)

    def search(
        self, queries: Tensor, k: int, hidden: Sequence[str] | None = None, label: str | None = None
    ) -> Neighbors:
        """The k entries most like each query.

        Args:
            queries: (Q, D).
            k: how many.
            hidden: a digest for each query; entries of that digest are left out. The empty digest hides nothing.
            label: look among entries with this label only.

        Shapes: (Q, D) -> index (Q, k), similarity (Q, k).
        """
        places = None if label is None else self.places(label)
        rows = self.rows if places is None else as_gallery(self.rows.vectors[places])
        entries = self.entries if places is None else [self.entries[row] for row in places.tolist()]
        near = search(queries, rows, k, groups=hiding_groups(entries, hidden))
        if places is None or not len(places):
            return near
        return near._replace(index=torch.where(near.index < 0, -1, places[near.index.clamp(min=0)]))

    def search_voters(self, queries: Tensor, k: int, hidden: Sequence[str] | None = None) -> Neighbors:
        """The k labelled entries most like each query, by their number among the labelled ones; as :meth:`search`."""
        entries = [entry for entry in self.entries if entry.label is not None]
        return search(queries, self.voters.rows, k, groups=hiding_groups(entries, hidden))

    @cached_property
    def voters(self) -> Labelled:
        """What a query is classified by; where some entries have no label, the others are copied."""
        numbers, names = self.numbered
        has_label = numbers >= 0
        if bool(has_label.all()):
            return Labelled(self.rows, numbers, names)
        return Labelled(as_gallery(self.rows.vectors[has_label]), numbers[has_label], names)


class Gallery:
    """Vectors (N, D) with their entries.

    An id is in it once: what is added under a known id replaces what was there. Adding costs no copy of the whole
    (its capacity is doubled when needed), nor does the next search; removing and replacing copy it once. A reader
    sees the gallery before a change or after it, never between.

    Args:
        dim: D.

    Example:
        >>> gallery = Gallery(2)
        >>> gallery.add(torch.eye(2), [Entry("a", "cat", ""), Entry("b", "dog", "")])
        >>> gallery.remove(["a"])
        >>> len(gallery), gallery.contents().entries[0].label
        (1, 'dog')
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._lock = RLock()
        self._changes = 0
        self._held: Contents | None = None  # the answer of contents() until the next change
        self._clear()

    def _clear(self) -> None:
        """Begin anew; readers of the old contents keep them."""
        self._vectors = GrownTensor(self.dim)
        self._prepared = PreparedRows()
        self._entries: list[Entry] = []
        self._rows: dict[str, int] = {}  # id -> row
        self._made: dict[str, int] = {}  # hash -> a row made from it

    def _append(self, vectors: Tensor, entries: Sequence[Entry]) -> None:
        self._changes += 1
        self._vectors.extend(vectors)
        for row, entry in enumerate(entries, len(self._entries)):
            self._entries.append(entry)
            self._rows[entry.id] = row
            if entry.digest:
                self._made.setdefault(entry.digest, row)

    def __len__(self) -> int:
        return len(self._entries)

    def contents(self) -> Contents:
        """The gallery as it is now."""
        with self._lock:
            if self._held is None or self._held.version != self._changes:
                count = len(self._entries)
                entries = Prefix(self._entries, count)
                self._held = Contents(self._vectors.first(count), entries, self._changes, self._prepared)
            return self._held

    def find_vector(self, digest: str) -> Tensor | None:
        """The vector (D,) that was made from these contents before; None if there is none."""
        with self._lock:
            row = self._made.get(digest)
            return None if row is None else self._vectors.first(len(self))[row].clone()

    def find(self, id: str) -> tuple[Entry, Tensor] | None:
        """Entry and vector (D,) of an id; None if it is not there."""
        with self._lock:
            row = self._rows.get(id)
            return None if row is None else (self._entries[row], self._vectors.first(len(self))[row].clone())

    def add(self, vectors: Tensor, entries: Sequence[Entry]) -> None:
        """Put vectors (n, D) with their entries behind the others; known ids are replaced."""
        if vectors.shape != (len(entries), self.dim):
            raise UserError(
                f"vectors have shape {tuple(vectors.shape)} with {len(entries)} ids; this gallery takes (n, {self.dim})"
            )
        check_finite(vectors)
        last = {entry.id: place for place, entry in enumerate(entries)}  # of one id given twice, the last
        kept = sorted(last.values())
        with self._lock:
            self.remove([entry.id for entry in entries if entry.id in self._rows])
            self._append(vectors[kept].float().cpu(), [entries[place] for place in kept])

    def remove(self, ids: Sequence[str]) -> None:
        """Take these ids out; unknown ones are an error."""
        with self._lock:
            missing = [name for name in ids if name not in self._rows]
            if missing:
                raise UserError(f"{missing[0]!r} is not in the gallery, which holds {len(self)} ids")
            if not ids:
                return
            gone = {self._rows[name] for name in ids}
            stay = [row for row in range(len(self)) if row not in gone]
            vectors, entries = self._vectors.first(len(self))[stay], [self._entries[row] for row in stay]
            self._clear()
            self._append(vectors, entries)


def hiding_groups(entries: Sequence[Entry], hidden: Sequence[str] | None) -> tuple[Tensor, Tensor] | None:
    """Groups of queries and entries in which a query meets no entry of its digest; the empty digest hides nothing."""
    if hidden is None:
        return None
    number = {digest: place for place, digest in enumerate(dict.fromkeys(hidden)) if digest}
    return (
        torch.tensor([number.get(digest, -1) for digest in hidden]),
        torch.tensor([number.get(entry.digest, -1) for entry in entries], dtype=torch.long),
    )


def entries_of(data: Manifest) -> list[Entry]:
    """The images of a data set as entries: path, class name, hash."""
    digests = data.values("content") if data.has("content") else [""] * len(data)
    return [Entry(*row) for row in zip(data.values("path"), data.values("class_name"), digests, strict=True)]
