"""A zip archive of images: with a table beside it (``x.zip`` + ``x.tsv``), or with class folders inside."""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from similis.data.content import digest_of, for_each, known_digests
from similis.data.manifest import Manifest, from_columns
from similis.data.readers.folder import by_parent
from similis.data.readers.tables import read_columns
from similis.data.sources import check_size, connect, file_version, is_url, open_binary
from similis.data.table import standardise_columns
from similis.values import DataError, SimilisError


@dataclass(frozen=True)
class ZipSource:
    """Members of a zip archive, local or behind an fsspec URL; ``mark`` is that of the archive's version."""

    archive: str
    mark: str = ""

    def read(self, id: int, path: str) -> bytes:  # noqa: ARG002
        """The member's bytes."""
        return read_member(_zip(self.archive, self.mark, os.getpid(), threading.get_ident()), path, self.archive)

    def digests(self, ids: Sequence[int], paths: Sequence[str], *, verify: bool) -> list[str]:  # noqa: ARG002
        """The hash of every member."""
        versions = dict.fromkeys(paths, file_version(self.archive))
        return known_digests(self.archive, paths, versions, self._compute, verify=verify)

    def _compute(self, names: list[str]) -> dict[str, str]:
        with open_zip(self.archive) as archive:
            return for_each(lambda path: digest_of(read_member(archive, path, self.archive)), names, self.archive)


def open_zip(place: str) -> zipfile.ZipFile:
    """An open zip archive; what is no archive, or half of one, is a DataError."""
    try:
        # A path is opened by the archive itself, which then also closes it.
        return zipfile.ZipFile(open_binary(place) if is_url(place) else place)
    except FileNotFoundError as error:
        raise DataError(f"there is no archive {place!r}; check the path") from error
    except OSError:
        raise
    except Exception as error:  # on damaged bytes zipfile raises more than BadZipFile
        raise DataError(f"{place!r} is not a zip archive or is cut short ({error}); fetch it again") from error


def read_member(archive: zipfile.ZipFile, path: str, place: str) -> bytes:
    """The bytes of a member of an archive."""
    try:
        check_size(archive.getinfo(path).file_size)
        return archive.read(path)
    except SimilisError:
        raise
    except KeyError as error:
        raise DataError(f"{path!r} is in the table but not in the archive {place!r}; add it there") from error
    except Exception as error:  # it is damaged, encrypted, or packed in a way that Python does not know
        raise DataError(f"{path!r} of {place!r} cannot be unpacked ({error}); make the archive again") from error


@lru_cache(maxsize=16)
def _zip(archive: str, mark: str, process: int, thread: int) -> zipfile.ZipFile:  # noqa: ARG001
    return open_zip(archive)


def read_archive(place: str, *, table: str | None = None) -> Manifest:
    """A manifest from a zip archive, not unpacked; ``table`` defaults to a TSV or CSV of the same name beside it."""
    with open_zip(place) as archive:
        members = {entry.filename for entry in archive.infolist() if not entry.is_dir()}
        folders = {entry.filename.rstrip("/") for entry in archive.infolist() if entry.is_dir()}
    name, source = PurePosixPath(place).stem, ZipSource(place, file_version(place).mark)
    beside = (place.removesuffix(".zip") + ending for ending in (".tsv", ".csv"))
    table = table or next(filter(exists, beside), None)
    if table is None:
        return by_parent(name, sorted(members), sorted(folders), source, place)
    columns = standardise_columns(read_columns(table), table)
    missing = [path for path in columns["path"] if path not in members]
    if missing:
        raise DataError(f"{len(missing)} images of {table!r} are missing in {place!r}, the first is {missing[0]!r}")
    return from_columns(name, columns, source)


def exists(place: str) -> bool:
    """Whether a file or folder exists, local or behind an fsspec URL."""
    if is_url(place):
        system, path = connect(place)
        return bool(system.exists(path))
    return Path(place).exists()
