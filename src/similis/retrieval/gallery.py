"""A gallery: vectors with ids and labels that grows, shrinks and answers, from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.search import search
from similis.values import Neighbors, UserError


class Entry(NamedTuple):
    """What a gallery knows of a vector: its id, its label (or None), the hash of what it was made from (or "")."""

    id: str
    label: str | None
    digest: str


class Contents(NamedTuple):
    """A gallery at one moment: vectors (N, D), an entry for each, and the number of changes so far."""

    vectors: Tensor
    entries: Sequence[Entry]
    version: int

    def labelled(self) -> tuple[Tensor, Tensor, list[str]]:
        """Vectors (M, D) of the entries that have a label, their numbers (M,), and the label of each number."""
        rows = [row for row, entry in enumerate(self.entries) if entry.label is not None]
        names = [str(self.entries[row].label) for row in rows]
        number = {name: place for place, name in enumerate(dict.fromkeys(names))}
        return self.vectors[rows], torch.tensor([number[name] for name in names], dtype=torch.long), list(number)


class Gallery:
    """Vectors (N, D) with their entries.

    An id is in it once: what is added under a known id replaces what was there. Adding costs no copy of the whole
    (room is doubled when it is used up), removing copies it once. A reader sees the gallery before a change or after
    it, never between.

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
        self._room = torch.empty(0, dim)
        self._entries: list[Entry] = []
        self._rows: dict[str, int] = {}  # id -> row
        self._made: dict[str, int] = {}  # hash -> a row made from it
        self._changes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def contents(self) -> Contents:
        """The gallery as it is now."""
        with self._lock:
            return Contents(self._room[: len(self._entries)], tuple(self._entries), self._changes)

    def known(self, digest: str) -> Tensor | None:
        """The vector (D,) that was made from these contents before; None if there is none."""
        with self._lock:
            row = self._made.get(digest)
            return None if row is None else self._room[row].clone()

    def add(self, vectors: Tensor, entries: Sequence[Entry]) -> None:
        """Put vectors (n, D) with their entries behind the others; known ids are replaced."""
        if vectors.shape != (len(entries), self.dim):
            raise UserError(
                f"vectors have shape {tuple(vectors.shape)} with {len(entries)} ids; this gallery takes (n, {self.dim})"
            )
        last = {entry.id: place for place, entry in enumerate(entries)}  # of one id given twice, the last
        kept = sorted(last.values())
        with self._lock:
            self.remove([entry.id for entry in entries if entry.id in self._rows])
            self._changes += 1
            start = len(self._entries)
            self._make_room(start + len(kept))
            self._room[start : start + len(kept)] = vectors[kept].to(self._room)
            for row, place in enumerate(kept, start):
                self._note(row, entries[place])

    def remove(self, ids: Sequence[str]) -> None:
        """Take these ids out; unknown ones are an error."""
        with self._lock:
            missing = [name for name in ids if name not in self._rows]
            if missing:
                raise UserError(f"{missing[0]!r} is not in the gallery, which holds {len(self)} ids")
            if not ids:
                return
            self._changes += 1
            gone = {self._rows[name] for name in ids}
            stay = [row for row in range(len(self._entries)) if row not in gone]
            entries = [self._entries[row] for row in stay]
            self._room = self._room[stay]  # a copy: whoever holds the old contents keeps them
            self._entries, self._rows, self._made = [], {}, {}
            for row, entry in enumerate(entries):
                self._note(row, entry)

    def _note(self, row: int, entry: Entry) -> None:
        self._entries.append(entry)
        self._rows[entry.id] = row
        if entry.digest:
            self._made.setdefault(entry.digest, row)

    def _make_room(self, rows: int) -> None:
        if rows > len(self._room):
            room = torch.empty(max(rows, 2 * len(self._room)), self.dim)
            room[: len(self._entries)] = self._room[: len(self._entries)]
            self._room = room


def search_gallery(held: Contents, queries: Tensor, k: int, hidden: Sequence[str] | None = None) -> Neighbors:
    """The k entries most like each query; with ``hidden`` digests (Q), entries of that digest are left out.

    Shapes: (Q, D) -> index (Q, k), similarity (Q, k).
    """
    groups = None
    if hidden is not None:
        number = {digest: place for place, digest in enumerate(dict.fromkeys(hidden))}
        groups = (
            torch.tensor([number[digest] for digest in hidden]),
            torch.tensor([number.get(entry.digest, -1) for entry in held.entries], dtype=torch.long),
        )
    return search(queries, held.vectors, k, groups=groups)
