"""Where Optuna keeps trials: a journal file beside the runs, or a database by its URL."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from similis.values import MissingExtraError, UserError

try:
    from optuna.storages import BaseStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend, JournalStorage
except ImportError as error:
    raise MissingExtraError("optuna", "study") from error


class KernelLock:
    """A lock that the kernel takes back when its holder dies; a lock file would outlive ``kill -9``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: int | None = None

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._held = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Give it back."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


@contextmanager
def exclusive(path: Path, *, busy: str | None = None) -> Iterator[None]:
    """Hold a file's lock for a while; with ``busy``, do not wait but refuse with that sentence."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise UserError(str(busy)) from None
        yield
    finally:
        os.close(held)


def open_storage(url: str | None, journal: Path) -> BaseStorage:
    """The database at a URL, or the journal file.

    Args:
        url: such as ``postgresql+psycopg2://user@host/name`` or ``sqlite:///trials.db``; None for the file.
        journal: the file.
    """
    if url is not None:
        try:
            return RDBStorage(url)
        except ImportError as error:
            raise UserError(f"the storage {url.partition(':')[0]} needs its driver installed ({error})") from error
    journal.parent.mkdir(parents=True, exist_ok=True)
    whole_lines(journal)
    lock: Any = KernelLock(journal.with_suffix(".lock"))  # has what Optuna asks of a lock; its base class is private
    return JournalStorage(JournalFileBackend(str(journal), lock_obj=lock))


def whole_lines(journal: Path) -> None:
    """Drop a last line that a crash cut short."""
    if not journal.exists():
        return
    data = journal.read_bytes()
    if data and not data.endswith(b"\n"):
        journal.write_bytes(data[: data.rfind(b"\n") + 1])
