"""Packing: every image of a manifest into one Lance data set, for quick reads in any order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from similis.data.manifest import Manifest
from similis.data.readers.lance import read_lance
from similis.values import UserError, import_extra

_ROWS_AT_ONCE = 256


def pack(manifest: Manifest, place: str) -> Manifest:
    """Write the images and the table to a Lance data set and return its manifest.

    The fingerprint stays what it was. Class-balanced batches read images in random order, which is
    slow on a folder behind a network and quick here.

    Args:
        manifest: what to pack.
        place: a new folder that ends in ``.lance``, or a URL.

    Example:
        >>> pack(open_data("photos/"), "photos.lance")  # doctest: +SKIP
    """
    if not place.rstrip("/").endswith(".lance"):
        raise UserError(f"a Lance data set is a folder that ends in .lance; given {place!r}")
    if Path(place).exists():
        raise UserError(f"{place!r} exists; remove it or choose another name (nothing is overwritten)")
    pa = import_extra("pyarrow")
    bare = manifest.table.drop_columns(["bytes"]) if manifest.has("bytes") else manifest.table
    schema = bare.schema.append(pa.field("bytes", pa.large_binary()))
    schema = schema.with_metadata({"similis.name": manifest.name})
    reader = pa.RecordBatchReader.from_batches(schema, chunks(manifest, bare, schema))
    import_extra("lance").write_dataset(reader, place, schema=schema)
    return read_lance(place).with_content()


def chunks(manifest: Manifest, bare: Any, schema: Any) -> Iterator[Any]:
    """The table with its images, a few hundred rows at a time."""
    pa = import_extra("pyarrow")
    for start in range(0, len(manifest), _ROWS_AT_ONCE):
        part = bare.slice(start, _ROWS_AT_ONCE).combine_chunks()
        images = [manifest.read_bytes(row) for row in range(start, start + part.num_rows)]
        arrays = [pa.array(column.to_pylist(), column.type) for column in part.columns]
        yield pa.record_batch([*arrays, pa.array(images, pa.large_binary())], schema=schema)
