"""Where the bytes of an image come from: a folder; archives and Parquet have their own files.

A source is a small frozen value that travels to worker processes; open handles live in a cache that
is keyed by the process, because a handle shared after a fork would share its file position.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from similis.data.content import Version, digest_of, for_each, known_digests, version_of
from similis.values import DataError, import_extra

LARGEST = 2**30  # bytes of an image file; more than the largest image that Pillow decodes needs
# Facts of a remote file that change with it; a server that states none of them is asked for the file again.
_MARKS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")


class Source(Protocol):
    """Gives the bytes of one image by its id and its relative path."""

    def read(self, id: int, path: str) -> bytes:
        """The encoded image."""

    def digests(self, ids: Sequence[int], paths: Sequence[str], *, verify: bool) -> list[str]:
        """The hash of every image's bytes; from the cache unless it is to be verified."""


def is_url(place: str) -> bool:
    """Whether a place is an fsspec URL (``s3://``, ``memory://``) and not a path of this machine."""
    return "://" in place


def join_path(root: str, path: str) -> str:
    """The place of a relative path below a root folder or URL."""
    return f"{root.rstrip('/')}/{path}" if is_url(root) else str(Path(root) / path)


def open_binary(place: str) -> Any:
    """An open binary file, local or through fsspec."""
    if not is_url(place):
        return Path(place).open("rb")
    system, path = connect(place)
    return system.open(path, "rb")


def connect(url: str) -> tuple[Any, str]:
    """The file system of an fsspec URL and the path in it."""
    if url.startswith(("s3://", "s3a://")):
        import_extra("s3fs")
    try:
        system, path = import_extra("fsspec").core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # a protocol that is unknown, or whose package is missing
        raise DataError(f"{url!r} cannot be reached: {first_line(error)}") from error
    return system, str(path)


def first_line(error: BaseException) -> str:
    """The first line of an error's message; some libraries add their own place in the source."""
    return str(error).partition("\n")[0]


def file_version(place: str) -> Version:
    """The version of a file, local or behind an fsspec URL."""
    if not is_url(place):
        return version_of(Path(place).stat())
    system, path = connect(place)
    return remote_version(system.info(path))


def remote_version(facts: dict[str, Any]) -> Version:
    """The version of a file behind an fsspec URL, from what its listing states."""
    marks = [(key, str(facts[key])) for key in _MARKS if facts.get(key)]
    return Version(digest_of(repr((facts.get("size"), marks)).encode()), settled=bool(marks))


def file_size(place: str) -> int:
    """Bytes of a file, local or behind an fsspec URL."""
    if not is_url(place):
        return Path(place).stat().st_size
    system, path = connect(place)
    return int(system.size(path) or 0)


def read_whole(place: str) -> bytes:
    """The bytes of a file, local or behind an fsspec URL, by one request."""
    if not is_url(place):
        return Path(place).read_bytes()
    system, path = connect(place)
    return bytes(system.cat_file(path))


def image_version(place: str) -> Version:
    """The version of an image file; raises where it is no file or larger than an image can be."""
    if is_url(place):
        return file_version(place)
    try:
        facts = Path(place).stat()
    except FileNotFoundError:
        raise DataError(
            "a link to a file that does not exist" if Path(place).is_symlink() else "no such file"
        ) from None
    if not stat.S_ISREG(facts.st_mode):  # reading a pipe or a device would never end
        raise DataError("a folder, a pipe or a device, not a file")
    check_size(facts.st_size)
    return version_of(facts)


def check_size(size: int) -> None:
    """Raise if an image file cannot be so large."""
    if size > LARGEST:
        raise DataError(f"{size} bytes, where an image file has at most {LARGEST}")


@dataclass(frozen=True)
class FolderSource:
    """Files below a folder or an fsspec URL."""

    root: str

    def read(self, id: int, path: str) -> bytes:  # noqa: ARG002
        """The file's bytes."""
        place = join_path(self.root, path)
        try:
            return read_whole(place)
        except FileNotFoundError as error:
            raise DataError(
                f"{path!r} is missing below {self.root!r}; restore it, or remove it from the data"
            ) from error
        except OSError as error:
            raise DataError(f"{path!r} below {self.root!r} cannot be read: {error.strerror or error}") from error

    def digests(self, ids: Sequence[int], paths: Sequence[str], *, verify: bool) -> list[str]:  # noqa: ARG002
        """The hash of every file; a file that is missing is an error that says how many are."""

        def compute(names: list[str]) -> dict[str, str]:
            return for_each(lambda path: digest_of(self.read(0, path)), names, self.root)

        names = list(dict.fromkeys(paths))
        versions = for_each(lambda path: image_version(join_path(self.root, path)), names, self.root)
        return known_digests(self.root, paths, versions, compute, verify=verify)
