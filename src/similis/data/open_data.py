"""Open any data: a path, a URL or the name of a known data set becomes a manifest."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl

from similis.data.catalogue import archive_copy, check_counts, known
from similis.data.manifest import Manifest
from similis.data.readers.archive import read_archive
from similis.data.readers.folder import is_utf8, read_folder
from similis.data.readers.parquet import list_shards, read_parquet
from similis.data.readers.part_files import list_part_files
from similis.data.readers.tables import read_delimited
from similis.data.sources import is_url
from similis.registry import find_nearest, unknown
from similis.values import DataError, SimilisError, UserError


def open_data(
    source: str | Path,
    *,
    root: str | None = None,
    images: str | None = None,
    table: str | None = None,
    allow_counts: bool = False,
    verify: bool = False,
) -> Manifest:
    """Open a data set, choosing the reader by what is given.

    Args:
        source: the name of a known data set (``cub200_2011``, ``synthetic?classes=8&size=32``), a folder of class
            folders, ``.zip``, ``.csv``, ``.tsv``, ``.parquet``, a folder of ``part-*.parquet`` or of
            ``train-00000-of-00001.parquet``, or an fsspec URL of these. A folder that is called like a known data set
            is given as ``./name``.
        root: the folder that holds the known data sets; None for the environment variable SIMILIS_DATA.
        images: the folder that the paths of a CSV or Parquet table are relative to; None for its own.
        table: the table of a zip archive; None for the one beside it.
        allow_counts: accept a known data set whose counts differ from the official ones.
        verify: hash every image again; otherwise a file whose size, times and inode are those of its last hash
            is not read (see :mod:`similis.data.content`).

    Example:
        >>> len(open_data("synthetic?classes=4&images=3&size=16"))
        12
    """
    opened = list_data(source, root=root, images=images, table=table, allow_counts=allow_counts)
    with explain_read_errors(str(source)):
        return opened.with_content(verify=verify)


def list_data(
    source: str | Path,
    *,
    root: str | None = None,
    images: str | None = None,
    table: str | None = None,
    allow_counts: bool = False,
) -> Manifest:
    """As :func:`open_data`, without the hashes of the images, which are not read."""
    if not isinstance(source, str | Path):
        raise UserError(f"the source is {source!r}; give the path of a folder or a file, or the name of a data set")
    source = str(source)
    if not is_utf8(source):
        raise UserError(f"the name {source!r} is not UTF-8; rename the folder or the file")
    name, _, query = source.partition("?")
    bare = source.rstrip("/")
    with explain_read_errors(source):
        if name in known:
            return open_known(name, query, root, allow_counts)
        if bare.endswith(".zip"):
            return read_archive(source, table=table)
        if bare.endswith((".csv", ".tsv", ".txt")):
            return read_delimited(source, images=images)
        if bare.endswith((".parquet", ".pq")) or (
            not is_url(source) and (list_part_files(source) or list_shards(source))
        ):
            return read_parquet(source, images=images)
        if is_url(source) or Path(source).is_dir():
            return read_folder(source)
        raise unusable_source(source)


@contextmanager
def explain_read_errors(source: str) -> Iterator[None]:
    """Turn an error of the file system inside the block into one sentence about this source."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{source[:200]!r} cannot be read ({error.strerror or error}); check the path") from error


def unusable_source(source: str) -> SimilisError:
    """The error about a source that is of no known kind, or not there: with the nearest neighbour or data set."""
    path, names = Path(source), [entry.name for entry in known]
    if path.exists():
        return DataError(
            f"{source!r} is of no known kind (.zip, .csv, .tsv, .parquet); unpack it into a folder of "
            "class folders, and give that"
        )
    is_path = "/" in source or bool(path.suffix)
    beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    words = {name.replace(".", " "): name for name in beside}  # an ending is no last word of a dotted key
    near = find_nearest(path.name.replace(".", " "), words)
    found = str(path.with_name(words[near])) if near else None if is_path else find_nearest(source, names)
    hint = f"; did you mean {found!r}?" if found else ""
    what = f"there is no folder or file {source!r}{hint}"
    if is_path:
        return DataError(f"{what} Check the path" if hint else f"{what}; check the path")
    return UserError(f"{what} (give a folder of class folders, a file, or a known data set: {', '.join(names)})")


def open_known(name: str, query: str, root: str | None, allow_counts: bool) -> Manifest:
    """Open a known data set and compare its counts with the official ones."""
    entry = known.get(name)
    options: dict[str, int] = {}
    takes = inspect.signature(entry.function).parameters
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in takes or key == "root":
            raise UserError(unknown(f"option of {name}", key, [each for each in takes if each != "root"]))
        if not value.removeprefix("-").isdecimal():
            raise UserError(f"option {key} of {name} is a whole number; given {value!r}")
        options[key] = int(value)
    manifest: Manifest = (
        (archive_copy(name, root) or entry.function(root=root)) if "root" in takes else entry.function(**options)
    )
    if not allow_counts:
        check_counts(name, manifest, entry.counts)
    return manifest
