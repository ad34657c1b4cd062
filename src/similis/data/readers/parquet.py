"""Parquet: a table of paths, of encoded images as Hugging Face ``datasets`` writes them, or of ready vectors.

Class-balanced batches read images in any order, which Parquet itself is slow at. So the images are copied once into an
uncompressed Arrow file in the cache folder and read through a memory map, which all workers share.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from similis.data.content import cache_folder, digest_of, known_digests
from similis.data.manifest import Manifest, from_columns
from similis.data.readers.part_files import read_part_files, stamp_of
from similis.data.readers.tables import parent
from similis.data.sources import FolderSource, file_version, first_line, open_binary
from similis.data.table import ALIASES, check_columns, is_list_of_floats, standardise_columns
from similis.values import DataError, import_extra

SHARDS = ("*-of-*.parquet", "data/*-of-*.parquet")  # as datasets names the files of a data set
ROWS_AT_ONCE = 16  # a batch of large photos is held while it is copied


@dataclass(frozen=True)
class ParquetSource:
    """The encoded images of Parquet files, by row; ``marks`` are those of the files' versions."""

    files: tuple[str, ...]
    column: str
    marks: tuple[str, ...]

    def read(self, id: int, path: str) -> bytes:  # noqa: ARG002
        """The image of a row."""
        return bytes(_mapped_images(self, os.getpid())[id].as_py())

    def digests(self, ids: Sequence[int], paths: Sequence[str], *, verify: bool) -> list[str]:  # noqa: ARG002
        """The hash of every image."""

        def compute(names: list[str]) -> dict[str, str]:
            return {name: digest_of(self.read(int(name), "")) for name in names}

        names = [str(row) for row in ids]
        versions = dict.fromkeys(names, file_version(self.files[0])._replace(mark=" ".join(self.marks)))
        return known_digests(f"{self.files[0]}#{self.column}", names, versions, compute, verify=verify)


@lru_cache(maxsize=16)
def _mapped_images(source: ParquetSource, process: int) -> Any:  # noqa: ARG001
    """The images of a source as one column of memory maps; a file that has no copy yet is copied."""
    pa, columns = import_extra("pyarrow"), []
    for place, mark in zip(source.files, source.marks, strict=True):
        copy = cache_folder() / "images" / f"{digest_of(repr((place, source.column, mark)).encode())}.arrow"
        with parquet_errors(place):
            if not copy.exists():
                copy_images(place, source.column, copy)
            columns.append(pa.ipc.open_file(pa.memory_map(str(copy))).read_all().column(0))
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.binary())


def copy_images(place: str, column: str, copy: Path) -> None:
    """Copy the images of a file, a few hundred at a time; the copy appears when it is whole."""
    pa, missing = import_extra("pyarrow"), 0
    schema = pa.schema([pa.field("bytes", pa.binary())])
    copy.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=copy.parent) as folder, open_binary(place) as file:
        part = Path(folder) / copy.name
        opened = import_extra("pyarrow.parquet").ParquetFile(file)
        with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in opened.iter_batches(ROWS_AT_ONCE, columns=[column]):
                images = batch.column(0)
                images = images.field("bytes") if pa.types.is_struct(images.type) else images
                missing += images.null_count
                writer.write_batch(pa.record_batch([images.cast(pa.binary())], schema=schema))
        if missing:
            raise DataError(f"{place!r}: {missing} rows have no bytes in column {column!r}; remove them")
        part.replace(copy)


@contextmanager
def parquet_errors(place: str) -> Iterator[None]:
    """What Arrow raises on a damaged file as a DataError."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"there is no table {place!r}; check the path") from error
    except (OSError, UnicodeDecodeError, import_extra("pyarrow").ArrowException) as error:
        raise DataError(f"{place!r} is no Parquet file or damaged ({first_line(error)}); write it again") from error


def list_shards(folder: str) -> list[str]:
    """The Parquet files of a folder that Hugging Face ``datasets`` wrote, in the order of their names."""
    return [str(path) for pattern in SHARDS for path in sorted(Path(folder).glob(pattern))]


def read_parquet(place: str, *, images: str | None = None) -> Manifest:
    """A manifest from a Parquet file, a folder of part files, or a folder of ``train-00000-of-00001.parquet``.

    Columns as in :data:`similis.data.table.ALIASES`; ready vectors win over images, and images over paths. An image is
    a column of bytes, or a record of bytes and path as Hugging Face ``datasets`` writes it, and then the names of its
    classes are read too. Paths are relative to ``images``, by default the table's folder.
    """
    files, image = list_shards(place), None
    with parquet_errors(place):
        if not files and Path(place).is_dir():
            table = read_part_files(place)
        else:
            files = files or [place]
            table, image = read_files(files)
        check_columns(table.column_names, place)
        stamp = stamp_of(table.schema.metadata) or {}
        columns = standardise_columns(table_columns(table, image), place)
    if stamp and "content" in table.column_names:  # in our own files; elsewhere it may be anything
        columns["content"] = table.column("content").to_pylist()
    name = PurePosixPath(place).stem
    if image is not None:
        marks = tuple(file_version(file).mark for file in files)
        return from_columns(name, columns, ParquetSource(tuple(files), image, marks))
    if "vector" in columns:
        return replace(from_columns(name, columns), model_hash=stamp.get("model", ""))
    return from_columns(name, columns, FolderSource(images or parent(place)))


def read_files(files: Sequence[str]) -> tuple[Any, str | None]:
    """The rows of all files without their images, and the column that holds these, if any."""
    tables, image = [], None
    for place in files:
        with open_binary(place) as file:
            opened = import_extra("pyarrow.parquet").ParquetFile(file)
            schema = opened.schema_arrow
            check_columns(schema.names, place)
            image = image_column(schema)
            top = (image or "").removesuffix(".bytes")
            tables.append(opened.read([name if name != top else f"{top}.path" for name in schema.names]))
    return import_extra("pyarrow").concat_tables(tables), image


def image_column(schema: Any) -> str | None:
    """The column of encoded images: one of bytes, or of records with bytes; None beside ready vectors."""
    types = import_extra("pyarrow").types
    kinds = {name: schema.field(name).type for name in schema.names}
    if any(name in kinds and is_list_of_floats(kinds[name]) for name in ALIASES["vector"]):
        return None
    encoded = next((name for name in ALIASES["bytes"] if name in kinds), None)
    if encoded is not None:
        return encoded if types.is_binary(kinds[encoded]) or types.is_large_binary(kinds[encoded]) else None
    records = (name for name in ALIASES["path"] if name in kinds and types.is_struct(kinds[name]))
    return next((f"{name}.bytes" for name in records if kinds[name].get_field_index("bytes") >= 0), None)


def table_columns(table: Any, image: str | None) -> dict[str, Any]:
    """The columns as lists, a path for every image, and the names of classes that ``datasets`` keeps beside them."""
    columns = {name: readable(table.column(name)) for name in table.column_names}
    if image is not None:
        top = image.removesuffix(".bytes")
        records = columns.pop(top, None) or [{}] * table.num_rows
        paths = columns.get("path", [(record or {}).get("path") for record in records])
        columns["path"] = [path or f"row-{row}" for row, path in enumerate(paths)]
    kept = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    for name, feature in kept.get("info", {}).get("features", {}).items():
        if feature.get("_type") == "ClassLabel" and name in ALIASES["class"] and "class_name" not in columns:
            named = dict(enumerate(feature["names"]))
            columns["class_name"] = [named.get(label) for label in columns[name]]
    return columns


def readable(column: Any) -> Any:
    """A column as a list; one of vectors as it is, because each of its numbers would become an object."""
    return column if is_list_of_floats(column.type) else column.to_pylist()
