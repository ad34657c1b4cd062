"""Where Optuna keeps trials: a journal file beside the runs, or a database by its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalStorage

from similis.training.file_lock import KernelLock, drop_partial_line
from similis.values import UserError


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
    drop_partial_line(journal)
    lock: Any = KernelLock(journal.with_suffix(".lock"))  # has what Optuna asks of a lock; its base class is private
    return JournalStorage(JournalFileBackend(str(journal), lock_obj=lock))
