"""A folder of Parquet part files with embeddings, and the list of them that comes last, so that none can be missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from similis.data.manifest import Manifest
from similis.data.sources import is_url, join_path, open_binary, read_whole
from similis.values import DataError, import_extra

STAMP = b"similis.embedding"  # key of the schema's metadata
FORMAT = "similis-embedding-3"
LISTING = "_embedding.json"  # readers of Parquet folders leave out what begins with a line
SKIPPED = "skipped.parquet"


def is_part(name: str) -> bool:
    """Whether a file name is that of a part."""
    return re.match(r"part-.*\.parquet", name) is not None


def list_part_files(folder: str | Path) -> list[Path]:
    """The part files of a folder: as its listing names them, or all in the order of their names."""
    listing = Path(folder) / LISTING
    if listing.is_file():
        return [Path(folder) / name for name, _ in read_listing(str(folder))["parts"]]
    return sorted(Path(folder).glob("part-*.parquet"))


def read_listing(folder: str) -> dict[str, Any]:
    """The listing of a finished job of ``similis embed``; anything else is a DataError."""
    try:
        found = json.loads(read_whole(join_path(folder, LISTING)))
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}, this version reads {FORMAT}")
        return dict(found)
    except FileNotFoundError:
        raise DataError(
            f"{folder!r} is not finished: it has no {LISTING}; restart `similis embed` with the same arguments"
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"the {LISTING} of {folder!r} is damaged ({error}); run `similis embed` again") from error


def vector_table(data: Manifest, vectors: Tensor, stamp: Mapping[str, object]) -> Any:
    """An Arrow table of ids (paths), vectors (fixed-size lists of float32) and the other columns, with its stamp."""
    pa = import_extra("pyarrow")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.numpy().reshape(-1)), vectors.shape[1])
    kept = [name for name in data.table.column_names if name not in ("id", "bytes", "vector")]
    table = data.table.select(kept).add_column(0, "vector", lists).add_column(0, "id", data.table.column("path"))
    return table.replace_schema_metadata({STAMP: json.dumps(stamp)})


def read_stamp(place: str | Path) -> dict[str, Any] | None:
    """What a part file states of itself, from its last bytes; None where it is no part file, damaged or not there."""
    try:
        with open_binary(str(place)) as file:
            return stamp_of(import_extra("pyarrow.parquet").read_metadata(file).metadata or {})
    except (OSError, ValueError, import_extra("pyarrow").ArrowException):
        return None


def stamp_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any] | None:
    """The stamp among the metadata of a schema, None without one."""
    found = json.loads((metadata or {}).get(STAMP, b"null"))
    return found if isinstance(found, dict) else None


def place_parts(folder: str, names: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    """Some columns of part files, those of them that each has, one file at a time."""
    parquet = import_extra("pyarrow.parquet")
    for name in names:
        place = join_path(folder, name)
        source = import_extra("pyarrow").BufferReader(read_whole(place)) if is_url(place) else place
        opened = parquet.ParquetFile(source)
        yield opened.read([each for each in columns if each in opened.schema_arrow.names])


def read_part_files(folder: str) -> Any:
    """The rows of all part files of a folder as one Arrow table; parts of an unfinished job are a DataError."""
    pa, files = import_extra("pyarrow"), list_part_files(folder)
    if not files:
        raise DataError(f"the folder {folder!r} holds no part-*.parquet; give the path of a Parquet file")
    tables = [import_extra("pyarrow.parquet").read_table(path, partitioning=None) for path in files]
    stamps = [stamp_of(table.schema.metadata) for table in tables]
    if any(stamp is not None for stamp in stamps):
        read_listing(folder)
    try:
        whole = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
    except pa.ArrowInvalid as error:
        raise DataError(f"the Parquet files of {folder!r} have different columns; keep each kind apart") from error
    return whole.replace_schema_metadata({STAMP: json.dumps(stamps[0])} if stamps[0] else None)
