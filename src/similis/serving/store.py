"""The collection on the disk: SQLite is the truth, and all that is held in memory can be made from it again."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from similis.retrieval.gallery import Entry
from similis.training.file_lock import hold_lock
from similis.values import DataError, SimilisError

FORMAT = "similis-collection-1"
TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE items (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, label TEXT, digest TEXT NOT NULL,
                    vector BLOB NOT NULL);
CREATE INDEX items_by_label ON items (label, id);
CREATE TABLE thumbnails (id TEXT PRIMARY KEY REFERENCES items (id) ON DELETE CASCADE, image BLOB NOT NULL);
"""
LATER = """
CREATE TABLE IF NOT EXISTS originals (id TEXT PRIMARY KEY REFERENCES items (id) ON DELETE CASCADE, image BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS previous (id TEXT PRIMARY KEY, digest TEXT NOT NULL, vector BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS mapped (id TEXT PRIMARY KEY REFERENCES items (id) ON DELETE CASCADE);
"""
ROOM = 2**16  # bytes: a disk with less is full, whatever the error is called


class StoreError(SimilisError):
    """A change was not kept; the collection is as it was before."""


class StoreFullError(StoreError):
    """The disk is full."""


class Item(NamedTuple):
    """What is kept of an image: its entry in the gallery, its vector (D,), a small picture, and its bytes, or b""."""

    entry: Entry
    vector: Tensor
    thumbnail: bytes
    original: bytes = b""


class Vectors(NamedTuple):
    """Vectors (N, D) of another model for all items of a collection, in their order; ``mapped`` ids are estimated."""

    vectors: Tensor
    mapped: Sequence[str]


class Store:
    """Items in one file.

    A change is on the disk when its method returns, and all of it or nothing: WAL with ``synchronous=FULL``. One
    process writes, which a lock ensures; methods may be called from several threads.

    Args:
        path: of the file; what is not there is made.
        read_only: take no changes. Without a file, and on a file system that cannot be written, the collection is held
            in memory.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self._address = path, path.absolute().as_uri()
        self.refusal = "the server was started with --read-only" if read_only else ""
        self.model_hash = ""  # of the model whose vectors these are, once it is open
        self._lock, self._reading = RLock(), RLock()
        self._held = ExitStack()
        try:
            if read_only or not self._open_written():
                self._writer = self._reader = self._open_unwritten()
                self._reading = self._lock
        except BaseException:
            self.close()
            raise

    def _open_written(self) -> bool:
        """Open the file for changes; False, with a reason, where it cannot be written."""
        try:
            busy = f"{self.path} is used by another server; stop that one, or give another file with --store"
            self._held.enter_context(hold_lock(Path(f"{self.path}.lock"), busy=busy))
            self._writer = self._connect(f"{self._address}?mode=rwc")
            self._writer.execute("PRAGMA journal_mode=WAL").fetchone()
            self._reader = self._connect(f"{self._address}?mode=ro")
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            self.refusal = f"{self.path} cannot be written ({error.strerror})"
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise self._damage(error) from error
            self.refusal = f"{self.path} cannot be written ({error})"
        return not self.refusal

    def _damage(self, error: sqlite3.Error) -> DataError:
        """What to say of a file that cannot be used."""
        if self._is_full(error):
            return DataError(f"the disk of {self.path} is full; free space, or give another file with --store")
        return DataError(f"{self.path} is not a collection ({error}); give another file with --store")

    def _is_full(self, error: sqlite3.Error) -> bool:
        code = getattr(error, "sqlite_errorcode", 0)
        return code & 0xFF == sqlite3.SQLITE_FULL or shutil.disk_usage(self.path.parent).free < ROOM

    def _connect(self, address: str) -> sqlite3.Connection:
        made = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        self._held.callback(made.close)
        made.execute("PRAGMA synchronous=FULL")
        made.execute("PRAGMA foreign_keys=ON")
        return made

    def _open_unwritten(self) -> sqlite3.Connection:
        """The file as it is, or a collection in memory where there is none."""
        if not self.path.exists():
            return self._connect("file::memory:")
        try:
            made = self._connect(f"{self._address}?mode=ro")
            made.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            log = Path(f"{self.path}-wal")
            if log.exists() and log.stat().st_size:
                raise DataError(
                    f"{log} holds changes that a server did not finish, and it cannot be written; open the collection "
                    "once where it can"
                ) from error
            made = self._connect(f"{self._address}?immutable=1")
        return made

    def open(self, model_hash: str, dim: int, first: Iterable[Item], source: str = "") -> bool:
        """Bind the collection to a model; a new one is filled in one transaction.

        Returns whether it was filled from this source, as far as it is known.

        Args:
            model_hash: of the model whose vectors these are; another one is refused.
            dim: D.
            first: what a new collection holds.
            source: a hash of it.
        """
        try:
            if not self._read("SELECT 1 FROM sqlite_master WHERE name = 'about'"):
                about = {"format": FORMAT, "model_hash": model_hash, "dim": str(dim), "source": source}
                with self._transaction() as change:
                    for statement in filter(str.strip, TABLES.split(";")):
                        change.execute(statement)
                    change.executemany("INSERT INTO about VALUES (?, ?)", about.items())
                    _insert(change, first)
            if not self.refusal and self._writer is not self._reader:
                self._writer.executescript(LATER)  # an earlier version made none of them
            found = dict(self._read("SELECT name, value FROM about"))
        except sqlite3.DatabaseError as error:
            raise self._damage(error) from error
        if found.get("format") != FORMAT:
            raise DataError(f"{self.path} has the format {found.get('format')!r}, known is {FORMAT}; give another file")
        if found.get("model_hash") != model_hash:
            raise DataError(
                f"{self.path} holds vectors of the model {found.get('model_hash', '')[:12]}, and this model is "
                f"{model_hash[:12]}: they cannot be compared; take the collection along with similis upgrade, or give "
                "another file with --store"
            )
        self.model_hash = model_hash
        return bool(found.get("source", source) == source)

    def switch(self, model_hash: str, source: str, found: Vectors) -> None:
        """Replace all vectors by those of another model, in one transaction; the present ones are kept for a return.

        Args:
            model_hash: of that model.
            source: as in :meth:`open`.
            found: a vector for each item that there is.
        """
        blobs = [vector.numpy().astype("<f4").tobytes() for vector in found.vectors]
        about = {"model_hash": model_hash, "dim": str(found.vectors.shape[1]), "source": source}
        with self._change() as change:
            (before,) = change.execute("SELECT value FROM about WHERE name = 'model_hash'").fetchone()
            change.execute("DELETE FROM previous")
            change.execute("INSERT INTO previous SELECT id, digest, vector FROM items WHERE id NOT IN mapped")
            places = change.execute("SELECT place FROM items ORDER BY place").fetchall()
            rows = zip(blobs, (place for (place,) in places), strict=True)
            change.executemany("UPDATE items SET vector = ? WHERE place = ?", rows)
            change.execute("DELETE FROM mapped")
            change.executemany("INSERT INTO mapped VALUES (?)", [(name,) for name in found.mapped])
            about |= {"previous": before}
            change.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", about.items())
        self.model_hash = model_hash

    def add(self, items: Sequence[Item]) -> None:
        """Put items behind the others; known ids are replaced."""
        with self._change() as change:
            _insert(change, items)

    def remove(self, *, id: str | None = None, label: str | None = None) -> list[str]:
        """Take out one id, or all items with a label; the ids that were there."""
        column, value = ("id", id) if id is not None else ("label", label)
        with self._change() as change:
            found = change.execute(f"DELETE FROM items WHERE {column} = ? RETURNING id", (value,)).fetchall()
        return [each for (each,) in found]

    def load(self) -> tuple[Tensor, list[Entry]]:
        """Vectors (N, D) and entries of all items, in the order they were added."""
        rows = self._read("SELECT id, label, digest, vector FROM items ORDER BY place")
        dim = int(self._read("SELECT value FROM about WHERE name = 'dim'")[0][0])
        vectors = np.frombuffer(bytearray(b"".join(row[3] for row in rows)), dtype="<f4").reshape(-1, dim)
        return torch.from_numpy(vectors), [Entry(*row[:3]) for row in rows]

    def list_items(self, *, label: str | None, after: str, limit: int) -> list[tuple[str, str | None]]:
        """Ids and labels in the order of ids, from behind one of them."""
        where, values = ("id > ?", [after]) if label is None else ("label = ? AND id > ?", [label, after])
        return self._read(f"SELECT id, label FROM items WHERE {where} ORDER BY id LIMIT {int(limit)}", *values)

    def thumbnail(self, id: str) -> bytes | None:
        """The small picture of an item; None where there is none."""
        rows = self._read("SELECT image FROM thumbnails WHERE id = ?", id)
        return rows[0][0] if rows else None

    def original(self, id: str) -> bytes | None:
        """The image of an item as it was sent; None where it was not kept."""
        rows = self._later("originals", "SELECT image FROM originals WHERE id = ?", id)
        return rows[0][0] if rows else None

    def original_sizes(self) -> dict[str, int]:
        """Id -> bytes of the image that is kept as it was sent."""
        return dict(self._later("originals", "SELECT id, length(image) FROM originals"))

    def mapped(self) -> list[str]:
        """Ids whose vector is mapped from that of an earlier model."""
        return [name for (name,) in self._later("mapped", "SELECT id FROM mapped")]

    def previous(self) -> list[tuple[str, str, bytes]]:
        """Id, hash and vector of the model before the last switch, for items that are the same since."""
        words = (
            "SELECT id, items.digest, previous.vector FROM previous JOIN items USING (id) "
            "WHERE items.digest = previous.digest AND (items.digest != '' OR id IN mapped)"
        )
        return self._later("previous", words)

    def _later(self, table: str, query: str, *values: str) -> list[Any]:
        """Rows of a table that a collection of an earlier version may lack."""
        there = self._read("SELECT 1 FROM sqlite_master WHERE name = ?", table)
        return self._read(query, *values) if there else []

    def close(self) -> None:
        """Move all changes into the file, and let others open it."""
        with suppress(sqlite3.Error):
            self._held.close()

    def _read(self, query: str, *values: str) -> list[Any]:
        with self._reading:
            return self._reader.execute(query, values).fetchall()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """A transaction whose errors say that nothing was changed."""
        if self.refusal:
            raise StoreError(f"this collection takes no changes: {self.refusal}")
        try:
            with self._transaction() as change:
                yield change
        except sqlite3.Error as error:
            if self._is_full(error):
                raise StoreFullError("the disk is full, so nothing was changed; free space and try again") from error
            raise StoreError(f"the disk refused the change ({error}), so nothing was changed; try again") from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # an error of the disk has undone it already
                    self._writer.execute("ROLLBACK")
                raise


def _insert(change: sqlite3.Connection, items: Iterable[Item]) -> None:
    for entry, vector, thumbnail, original in items:
        change.execute("DELETE FROM items WHERE id = ?", (entry.id,))
        blob = vector.numpy().astype("<f4").tobytes()
        change.execute("INSERT INTO items (id, label, digest, vector) VALUES (?, ?, ?, ?)", (*entry, blob))
        if thumbnail:
            change.execute("INSERT INTO thumbnails VALUES (?, ?)", (entry.id, thumbnail))
        if original:
            change.execute("INSERT INTO originals VALUES (?, ?)", (entry.id, original))
