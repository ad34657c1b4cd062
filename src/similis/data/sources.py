"""Where the bytes of an image come from: a folder, a zip archive, a Lance data set, or the table itself.

A source is a small frozen value that travels to worker processes; open handles live in a cache that
is keyed by the process, because a handle shared after a fork would share its file position.
"""

from __future__ import annotations

import os
import threading
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from similis.values import DataError, import_extra


class Source(Protocol):
    """Gives the bytes of one image by its id and its relative path."""

    @property
    def forkable(self) -> bool:
        """Whether a process that has read from it may fork."""
        ...

    def read(self, id: int, path: str) -> bytes:
        """The encoded image."""
        ...


def is_url(place: str) -> bool:
    """Whether a place is an fsspec URL (``s3://``, ``memory://``) and not a path of this machine."""
    return "://" in place


def joined(root: str, path: str) -> str:
    """The place of a relative path below a root folder or URL."""
    return f"{root.rstrip('/')}/{path}" if is_url(root) else str(Path(root) / path)


def open_binary(place: str) -> Any:
    """An open binary file, local or through fsspec."""
    return import_extra("fsspec").open(place, "rb").open() if is_url(place) else Path(place).open("rb")


@dataclass(frozen=True)
class FolderSource:
    """Files below a folder or an fsspec URL."""

    root: str
    forkable: bool = True

    def read(self, id: int, path: str) -> bytes:  # noqa: ARG002
        """The file's bytes."""
        place = joined(self.root, path)
        try:
            with open_binary(place) as file:
                return bytes(file.read())
        except FileNotFoundError as error:
            raise DataError(f"{path!r} is named by the table but missing below {self.root!r}") from error


@dataclass(frozen=True)
class ZipSource:
    """Members of a zip archive, local or behind an fsspec URL."""

    archive: str
    forkable: bool = True

    def read(self, id: int, path: str) -> bytes:  # noqa: ARG002
        """The member's bytes."""
        try:
            return _zip(self.archive, os.getpid(), threading.get_ident()).read(path)
        except KeyError as error:
            raise DataError(f"{path!r} is named by the table but missing in the archive {self.archive!r}") from error

    def version(self) -> tuple[str, int, int] | None:
        """What changes when the archive does: place, bytes and time; None where it is not a local file."""
        if is_url(self.archive):
            return None
        stat = Path(self.archive).stat()
        return str(Path(self.archive).resolve()), stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=16)
def _zip(archive: str, process: int, thread: int) -> zipfile.ZipFile:  # noqa: ARG001
    # A path is opened by the archive itself, which then also closes it.
    return zipfile.ZipFile(open_binary(archive) if is_url(archive) else archive)


@dataclass(frozen=True)
class LanceSource:
    """The ``bytes`` column of a Lance data set; rows are found by their id."""

    uri: str
    forkable: bool = False  # its reader runs threads, which a fork does not copy

    def read(self, id: int, path: str) -> bytes:  # noqa: ARG002
        """The row's bytes, by random access."""
        data, positions = _lance(self.uri, os.getpid())
        rows = data.take([positions[id]], columns=["bytes"])
        return bytes(rows.column("bytes")[0].as_py())


@lru_cache(maxsize=4)
def _lance(uri: str, process: int) -> tuple[Any, dict[int, int]]:  # noqa: ARG001
    data = import_extra("lance").dataset(uri)
    ids = data.to_table(columns=["id"]).column("id").to_pylist()
    return data, dict(zip(ids, range(len(ids)), strict=True))
