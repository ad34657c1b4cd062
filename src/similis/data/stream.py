"""A collection as a stream of chunks, made while it is listed: for collections that no table in memory could hold.

A chunk ends where the hash of a path says so. A photo that is added or removed changes one chunk, and not all that
come after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zlib import crc32

from similis.data.catalogue import known
from similis.data.content import digest_of
from similis.data.manifest import Manifest
from similis.data.open_data import explain_read_errors, list_data
from similis.data.readers.folder import entries, is_folder, is_hidden, is_image, is_utf8, walk_remote, walk_tree
from similis.data.readers.parquet import image_column, parquet_errors, table_columns
from similis.data.readers.tables import parent
from similis.data.sources import (
    FolderSource,
    connect,
    file_size,
    file_version,
    is_url,
    join_path,
    open_binary,
    read_whole,
    remote_version,
)
from similis.data.table import ALIASES, SPLITS, is_list_of_floats, is_missing
from similis.values import DataError, import_extra

LARGE = 2**28  # bytes of a Parquet file that is read by groups of rows
TABLES = (".parquet", ".pq")


class Listed(NamedTuple):
    """A file of a collection: its path below the source, what changes when it does, and its bytes."""

    path: str
    mark: str
    size: int = 0


@dataclass(frozen=True)
class Chunk:
    """Items that are embedded together; a small value that travels to the worker that opens it.

    Attributes:
        root: folder or URL that paths are relative to.
        files: images, or one Parquet file.
        groups: of rows of the Parquet file; None for all of it.
        rows: of a data set with a table of its own, in place of files.
        splits: whether the topmost folders are ``train`` and ``test``.
    """

    root: str
    files: Sequence[Listed]
    groups: tuple[int, ...] | None = None
    rows: Manifest | None = None
    splits: bool = False

    @property
    def ends(self) -> tuple[str, str]:
        """The least and the greatest path."""
        paths = [each.path for each in self.files]
        return min(paths), max(paths)

    @property
    def mark(self) -> str:
        """A hash of the paths and of what changes when a file does."""
        return digest_of(repr((self.groups, [(each.path, each.mark) for each in self.files])).encode())

    def open(self) -> Manifest:
        """The items: ``path`` (their key), ``mark``, perhaps ``class_name``; bytes of Parquet are in the table."""
        if self.rows is not None:
            return self.rows.with_columns({"mark": [each.mark for each in self.files]})
        if self.files[0].path.endswith(TABLES):
            return open_table(self.root, self.files[0], self.groups)
        paths = [each.path for each in self.files]
        parents = [list(PurePosixPath(path).parts[:-1]) for path in paths]
        columns: dict[str, Any] = {"id": range(len(paths)), "path": paths, "mark": [each.mark for each in self.files]}
        if self.splits:
            columns["split"] = [parts.pop(0) if parts[:1] else None for parts in parents]
        columns["class_name"] = ["/".join(parts) or None for parts in parents]
        return Manifest(self.root, import_extra("pyarrow").table(columns), FolderSource(self.root))


def stream_data(
    source: str | Path | Manifest, part_size: int, *, root: str | None = None, allow_counts: bool = False
) -> Iterator[Chunk]:
    """A collection in chunks of at most ``part_size`` items; no image is read.

    Folders and fsspec URLs are listed as the chunks are asked for: images and Parquet files, each of which is a chunk.
    All other data sets (archives, CSV, known names) have a table in memory, and their images are hashed first.

    Args:
        source: as of :func:`similis.open_data`, or an opened data set.
        part_size: items of a chunk at most; rows of a Parquet file are not counted.
        root: the folder of the known data sets.
        allow_counts: accept a known data set whose counts differ from the official ones.

    Example:
        >>> sum(len(chunk.files) for chunk in stream_data("synthetic?classes=2&images=3&size=8", 6))
        6
    """
    place = "" if isinstance(source, Manifest) else str(source)
    name, bare = place.partition("?")[0], place.rstrip("/")
    is_folder = bool(place) and name not in known and (is_url(place) or Path(place).is_dir())
    if bare.endswith(TABLES) and not Path(place).is_dir():
        folder, file = parent(bare), bare.rpartition("/")[2]
        with parquet_errors(bare):
            mark = file_version(bare).mark
            yield from cut_table(folder, Listed(file, mark, file_size(bare)))
    elif is_folder and not bare.endswith((".zip", ".csv", ".tsv", ".txt")):
        with explain_read_errors(place):
            yield from cut_files(place, part_size)
    else:
        data = source if isinstance(source, Manifest) else list_data(place, root=root, allow_counts=allow_counts)
        data = data if data.has("content") else data.with_content()
        marks = data.values("content") if data.has("content") else [data.fingerprint()] * len(data)
        check_keys(data.values("path"), data.name)
        start = 0
        for files in cut(map(Listed, data.values("path"), marks), part_size):
            yield Chunk(data.name, files, rows=data.select(range(start, start + len(files))))
            start += len(files)


def cut_files(root: str, part_size: int) -> Iterator[Chunk]:
    """The chunks of a folder or a URL."""
    tables: list[Listed] = []

    def images() -> Iterator[Listed]:
        for file in list_files(root):
            if file.path.endswith(TABLES):
                tables.append(file)
            elif is_image(file.path):
                if not is_utf8(file.path):
                    raise DataError(f"the file name {file.path!r} in {root!r} is not UTF-8; rename it")
                yield file

    splits = top_folders(root) == set(SPLITS)
    for files in cut(images(), part_size):
        yield Chunk(root, files, splits=splits)
    for table in tables:
        yield from cut_table(root, table)


def list_files(root: str) -> Iterator[Listed]:
    """Every file below a folder or a URL, marked by its size with its ETag or time of change."""
    if is_url(root):
        for path, stated in walk_remote(root):
            yield Listed(path, remote_version(stated).mark, stated.get("size") or 0)
        return
    for path, entry in walk_tree(root):
        if entry is not None:
            try:
                facts = entry.stat()
                yield Listed(path, f"{facts.st_size}-{facts.st_mtime_ns}", facts.st_size)
            except OSError:  # a broken link, which an attempt to read it will tell
                yield Listed(path, "")


def top_folders(root: str) -> set[str]:
    """The names of the folders in a folder or a URL."""
    if is_url(root):
        system, top = connect(root)
        found = (facts["name"].rstrip("/") for facts in system.ls(top, detail=True) if facts["type"] != "file")
        return {PurePosixPath(name).name for name in found}
    return {entry.name for entry in entries(root, "") if is_folder(entry) and not is_hidden(entry.name)}


def cut(listed: Iterable[Listed], part_size: int) -> Iterator[list[Listed]]:
    """Runs of at most ``part_size`` files, usually about half as many."""
    usual = -(-part_size // 2)
    held: list[Listed] = []
    for each in listed:
        held.append(each)
        if len(held) == part_size or crc32(each.path.encode()) % usual == 0:
            yield held
            held = []
    if held:
        yield held


def cut_table(root: str, file: Listed) -> Iterator[Chunk]:
    """A Parquet file as one chunk, or as one for each group of rows if it is large."""
    if file.size <= LARGE:
        yield Chunk(root, [file])
        return
    with open_binary(join_path(root, file.path)) as opened:
        groups = import_extra("pyarrow.parquet").ParquetFile(opened).num_row_groups
    yield from (Chunk(root, [file], (group,)) for group in range(groups))


def open_table(root: str, file: Listed, groups: tuple[int, ...] | None) -> Manifest:
    """Rows of a Parquet file with ready vectors, encoded images or paths; the file is read once.

    The key of a row is its path, where the table has a column of paths, else the name of the file and its number.
    """
    pa, place = import_extra("pyarrow"), join_path(root, file.path)
    with parquet_errors(place):
        source = open_binary(place) if groups else pa.BufferReader(read_whole(place))
        opened = import_extra("pyarrow.parquet").ParquetFile(source)
        table = opened.read_row_groups(groups) if groups else opened.read()
        before = sum(opened.metadata.row_group(group).num_rows for group in range(groups[0])) if groups else 0
    schema, image = table.schema, image_column(table.schema)
    vector = next((name for name in ALIASES["vector"] if name in schema.names), None)
    ready = vector is not None and is_list_of_floats(schema.field(vector).type)
    rest = table.drop_columns([name for name in schema.names if is_bulky(schema.field(name).type)])
    found = table_columns(rest, None)
    own = next((found[name] for name in ("id", *ALIASES["path"]) if name in found), None)
    numbers = range(before, before + len(table))
    if own is None and not ready and image is None:
        raise DataError(f"{place!r}: no column for the image; it has {schema.names}, want one of {ALIASES['path']}")
    keys = [
        f"{file.path}#{row}" if own is None or is_missing(own[row - before]) else str(own[row - before])
        for row in numbers
    ]
    check_keys(keys, place)
    label = next((found[name] for name in (*ALIASES["class_name"], *ALIASES["class"]) if name in found), None)
    columns: dict[str, Any] = {"id": range(len(keys)), "path": keys, "mark": [file.mark] * len(keys)}
    if label is not None:
        columns["class_name"] = [None if is_missing(value) else str(value) for value in label]
    if ready:
        columns["vector"] = table.column(vector)
    elif image is not None:
        held = table.column(image.removesuffix(".bytes")).combine_chunks()
        columns["bytes"] = (held.field("bytes") if image.endswith(".bytes") else held).cast(pa.large_binary())
    places = None if ready or image is not None else FolderSource(str(PurePosixPath(place).parent))
    return Manifest(file.path, pa.table(columns), places)


def check_keys(keys: Sequence[str], where: str) -> None:
    """Raise if two items have one key: which vector would be whose?"""
    twice = next((key for key, count in Counter(keys).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{where!r} lists {twice!r} more than once; give each item a path of its own, once")


def is_bulky(kind: Any) -> bool:
    """Whether a column holds images or vectors."""
    types = import_extra("pyarrow").types
    return bool(
        types.is_struct(kind) or types.is_binary(kind) or types.is_large_binary(kind) or is_list_of_floats(kind)
    )
