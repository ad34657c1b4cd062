"""What an upgrade prepares beside a collection: vectors of another model, and the switch to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from similis.data.manifest import Manifest
from similis.model.collection_file import prepared_file
from similis.model.model import Model
from similis.model.model_folder import entries_hash
from similis.retrieval.gallery import Entry
from similis.retrieval.spaces.space_map import SpaceMap, choose_kind, fit_map
from similis.serving.store import Store, Vectors
from similis.values import DataError, SimilisError

TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS vectors (id TEXT PRIMARY KEY, digest TEXT NOT NULL, vector BLOB NOT NULL);
"""


class Prepared:
    """Vectors of the new model, in a file beside the collection; one that was prepared for another model is emptied."""

    def __init__(self, file: Path, model_hash: str) -> None:
        self._opened = sqlite3.connect(prepared_file(file), isolation_level=None)
        self._opened.executescript(TABLES)
        if self._about() != {"model_hash": model_hash}:
            self._opened.executescript("BEGIN; DELETE FROM vectors; DELETE FROM about; COMMIT")
            self._opened.execute("INSERT INTO about VALUES ('model_hash', ?)", (model_hash,))

    def _about(self) -> dict[str, str]:
        return dict(self._opened.execute("SELECT name, value FROM about").fetchall())

    def add(self, rows: Iterable[tuple[str, str, bytes]]) -> None:
        """Keep ids, hashes and vectors, all or none."""
        self._opened.execute("BEGIN")
        self._opened.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        self._opened.execute("COMMIT")

    def rows(self) -> dict[tuple[str, str], bytes]:
        """(id, hash) -> vector."""
        found = self._opened.execute("SELECT id, digest, vector FROM vectors")
        return {(name, digest): vector for name, digest, vector in found}

    def close(self) -> None:
        """Close the file."""
        self._opened.close()


class Images:
    """Where the image of an item comes from: as it was sent, or else the image of a data set with the same contents."""

    def __init__(self, store: Store, data: Manifest | None) -> None:
        self.store, self.data = store, data
        contents = data.values("content") if data is not None and data.has("content") else []
        self.rows = {digest: row for row, digest in enumerate(contents)}

    def has(self, entry: Entry, kept: Collection[str]) -> bool:
        """Whether there is an image, given the ids that are kept as they were sent."""
        return bool(entry.digest) and (entry.digest in self.rows or entry.id in kept)

    def read(self, entry: Entry) -> bytes | None:
        """The bytes; None where there are none."""
        sent = self.store.original(entry.id) if entry.digest else None
        if sent is not None or self.data is None or entry.digest not in self.rows:
            return sent
        return self.data.read_bytes(self.rows[entry.digest])


def embed_entries(model: Model, entries: Sequence[Entry], images: Images) -> Iterator[tuple[str, str, bytes]]:
    """Id, hash and vector of each item whose image can be read."""
    found = [(entry, data) for entry in entries if (data := images.read(entry)) is not None]
    try:
        vectors = list(model.encode([data for _, data in found])) if found else []
    except SimilisError:  # one image of them cannot be decoded
        if len(found) == 1:
            return
        for entry, _ in found:
            yield from embed_entries(model, [entry], images)
        return
    for (entry, _), vector in zip(found, vectors, strict=True):
        yield entry.id, entry.digest, vector.numpy().astype("<f4").tobytes()


def complete_vectors(old: Tensor, entries: Sequence[Entry], known: dict[tuple[str, str], bytes], dim: int) -> Vectors:
    """The new vector of each item; of those without one, the old vector through a map that is fitted on the others."""
    held = [known.get((entry.id, entry.digest)) for entry in entries]
    found = torch.empty(len(entries), dim)
    rows = torch.tensor([vector is not None for vector in held], dtype=torch.bool)
    if rows.any():
        found[rows] = torch.from_numpy(np.frombuffer(b"".join(filter(None, held)), "<f4").reshape(-1, dim).copy())
    if not rows.all():
        pairs = [entries[row] for row in rows.nonzero().flatten().tolist()]
        found[~rows] = fit_between(old[rows], found[rows], pairs)(old[~rows])
    return Vectors(found, [entry.id for entry, has in zip(entries, rows.tolist(), strict=True) if not has])


def fit_between(x: Tensor, y: Tensor, entries: Sequence[Entry]) -> SpaceMap:
    """The map between the spaces of two models for items that both have embedded."""
    if len(x) < 2:
        raise DataError("no two items have vectors of both models, so the others cannot be mapped; give --images")
    labels = number_labels(entries)
    return fit_map(choose_kind(x, y, labels), x, y)


def number_labels(entries: Sequence[Entry]) -> Tensor:
    """Labels as numbers (N,); -1 where there is none."""
    numbers = {label: number for number, label in enumerate(dict.fromkeys(entry.label for entry in entries))}
    return torch.tensor([-1 if entry.label is None else numbers[entry.label] for entry in entries], dtype=torch.long)


def switch_store(store: Store, file: Path, model: Model) -> None:
    """Replace all vectors of a store by prepared ones; what came since is embedded or mapped now."""
    with closing(Prepared(file, model.model_hash)) as prepared:
        images, kept = Images(store, None), store.original_sizes()
        vectors, entries = store.load()
        mapped = set(store.mapped())  # a vector that came as one counts until another takes its id
        known = {
            (name, digest): vector for (name, digest), vector in prepared.rows().items() if digest or name in mapped
        }
        missing = [entry for entry in entries if (entry.id, entry.digest) not in known and images.has(entry, kept)]
        known |= {(name, digest): vector for name, digest, vector in embed_entries(model, missing, images)}
    saved = model.gallery.contents().entries
    store.switch(model.model_hash, entries_hash(saved), complete_vectors(vectors, entries, known, model.dim))
