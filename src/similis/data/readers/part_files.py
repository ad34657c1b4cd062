"""A folder of Parquet part files with embeddings: each states what it is a part of, so that none can be missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from similis.data.manifest import Manifest
from similis.values import DataError, import_extra

STAMP = b"similis.embedding"  # key of the schema's metadata
SHARED = ("format", "model", "source", "key", "part_size", "parts")  # metadata that all part files of one job share


def list_part_files(folder: str | Path) -> list[Path]:
    """The part files of a folder in the order of their names; one that is being written is called otherwise."""
    return sorted(Path(folder).glob("part-*.parquet"))


def vector_table(data: Manifest, vectors: Tensor, stamp: Mapping[str, object]) -> Any:
    """An Arrow table of ids, vectors (fixed-size lists of float32), labels and the other columns, with its stamp.

    The ids are those of the column that the stamp calls ``key``: row numbers would change when images are added.
    """
    pa = import_extra("pyarrow")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.numpy().reshape(-1)), vectors.shape[1])
    kept = [name for name in data.table.column_names if name not in ("id", "label", "bytes", "vector")]
    table = data.table.select(["label", *kept]).add_column(0, "vector", lists)
    table = table.add_column(0, "id", data.table.column(str(stamp["key"])))
    return table.replace_schema_metadata({STAMP: json.dumps(stamp)})


def read_stamp(path: Path) -> dict[str, Any] | None:
    """What a part file states of itself, from its last bytes; None where it is no part file or damaged."""
    try:
        metadata = import_extra("pyarrow.parquet").read_metadata(path).metadata or {}
        return stamp_of(metadata)
    except (OSError, ValueError, import_extra("pyarrow").ArrowException):
        return None


def stamp_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any] | None:
    """The stamp among the metadata of a schema, None without one."""
    found = json.loads((metadata or {}).get(STAMP, b"null"))
    return found if isinstance(found, dict) else None


def read_part_files(folder: str) -> Any:
    """The rows of all part files of a folder as one Arrow table; parts of an unfinished job are a DataError."""
    pa, files = import_extra("pyarrow"), list_part_files(folder)
    if not files:
        raise DataError(f"the folder {folder!r} holds no part-*.parquet; give the path of a Parquet file")
    tables = [import_extra("pyarrow.parquet").read_table(path, partitioning=None) for path in files]
    stamps = [stamp for table in tables if (stamp := stamp_of(table.schema.metadata)) is not None]
    if stamps:
        if len({json.dumps([stamp.get(key) for key in SHARED]) for stamp in stamps}) > 1 or len(stamps) < len(files):
            raise DataError(f"{folder!r} holds parts of several jobs of `similis embed`; keep each in its own folder")
        missing = sorted(set(range(stamps[0]["parts"])) - {stamp["part"] for stamp in stamps})
        if missing:
            raise DataError(
                f"{folder!r} lacks {len(missing)} of {stamps[0]['parts']} parts, the first is part {missing[0]}; "
                "restart `similis embed` with the same arguments to finish it"
            )
    try:
        whole = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
    except pa.ArrowInvalid as error:
        raise DataError(f"the Parquet files of {folder!r} have different columns; keep each kind apart") from error
    return whole.replace_schema_metadata({STAMP: json.dumps(stamps[0])} if stamps else None)
