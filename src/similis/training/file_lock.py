"""Files that survive a crash: locks that the kernel takes back, and lines that were cut short."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without such locks: do not start two writers there
    fcntl = None  # type: ignore[assignment]

from similis.values import UserError


@contextmanager
def hold_lock(path: Path, *, busy: str | None = None) -> Iterator[None]:
    """Hold a file's lock; with ``busy``, raise an error with that message instead of waiting."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held = open_lock(path)
    try:
        try:
            if fcntl is not None:
                fcntl.flock(held, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise UserError(str(busy)) from None
        yield
    finally:
        os.close(held)


def open_lock(path: Path) -> int:
    """A lock file that all who may write beside it can hold, whoever made it."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:  # of a file that another user has made
        if not path.exists():
            raise
        return os.open(path, os.O_RDONLY)


def drop_partial_line(path: Path) -> None:
    """Drop a last line that a crash cut short."""
    if not path.exists():
        return
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])
