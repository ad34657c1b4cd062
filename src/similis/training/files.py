"""Files that appear whole: written beside their place, flushed to the disk, then renamed."""

from __future__ import annotations

import csv
import errno
import os
import platform
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import shorten

from safetensors import SafetensorError

from similis.values import DataError


class DamagedError(DataError):
    """A file of a run or a saved model is missing, or is not what was written."""


def damage_error(path: Path, why: object) -> DamagedError:
    """The error about a file of a run, or of a saved model, that cannot be used."""
    remedy = "delete it, and result.json if that lies beside it, then train again with the same command"
    if (path.parent / "model.json").exists():
        remedy = "save or export the model again"
    return DamagedError(f"{path} is missing or damaged ({in_one_line(why)}); {remedy}")


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn an error of the file system inside the block into one sentence about this path."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"cannot write {path} ({in_one_line(error)}); free space on its disk, make its folder writable or choose "
            "another one, then run the same command again"
        ) from error


def replace_file(path: Path, write: Callable[[Path], object], *, previous: Path | None = None) -> None:
    """Write a file atomically with ``write(path)``; the old file moves to ``previous``, if given."""
    beside = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}")  # nodes may share the folder
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.touch()
            mode = beside.stat().st_mode  # as the umask wants it: safetensors makes its files private
            write(beside)
            beside.chmod(stat.S_IMODE(mode))
            flush(beside)
            if previous is not None and path.exists():
                flush_folder(path.parent)
                path.replace(previous)
            beside.replace(path)
            flush_folder(path.parent)
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)


def write_table(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file atomically; the first row is its header."""

    def write(beside: Path) -> None:
        with beside.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)

    replace_file(path, write)


def flush(path: Path) -> None:
    """Return when the disk has the contents of a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_folder(path: Path) -> None:
    """Make names durable where the file system knows how."""
    if os.name != "posix":
        return
    try:
        flush(path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def in_one_line(why: object) -> str:
    """The words of an error without its path, its line ends and what goes beyond two lines."""
    words = why.strerror if isinstance(why, OSError) and why.strerror else str(why)
    return shorten(words, 200, placeholder=" ...").rstrip(".") or type(why).__name__
