"""A Lance data set: images as rows, read in any order; ``similis data pack`` writes one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from similis.data.content import digest_of, known_digests
from similis.data.manifest import Manifest
from similis.data.readers.part_files import STAMP, stamp_of
from similis.data.sources import first_line, is_url, tree_version
from similis.values import DataError, SimilisError, UserError, import_extra


@contextmanager
def lance_errors(place: str) -> Iterator[None]:
    """Whatever Lance raises on damaged files as one DataError."""
    try:
        yield
    except SimilisError:
        raise
    except BaseException as error:
        # On some damage its Rust code panics, and PyO3's PanicException is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DataError(
            f"{place!r} is not a Lance data set or is damaged ({first_line(error)}); write it with: similis data pack"
        ) from error


@dataclass(frozen=True)
class LanceSource:
    """The ``bytes`` column of a Lance data set; rows are found by their id; ``mark`` is that of its version."""

    uri: str
    mark: str = ""
    forkable: bool = False  # its reader runs threads, which a fork does not copy

    def read(self, id: int, path: str) -> bytes:  # noqa: ARG002
        """The row's bytes, by random access."""
        with lance_errors(self.uri):
            data, positions = _lance(self.uri, self.mark, os.getpid())
            rows = data.take([positions[id]], columns=["bytes"])
        return bytes(rows.column("bytes")[0].as_py() or b"")

    def digests(self, ids: Sequence[int], paths: Sequence[str], *, verify: bool) -> list[str]:  # noqa: ARG002
        """The hash of every row's bytes."""
        version = tree_version(self.uri)
        found = known_digests(self.uri, dict.fromkeys(map(str, ids), version), self._compute, verify=verify)
        return [found[name] for name in map(str, ids)]

    def _compute(self, names: list[str]) -> dict[str, str]:  # noqa: ARG002
        found: dict[str, str] = {}
        with lance_errors(self.uri):
            for batch in import_extra("lance").dataset(self.uri).to_batches(columns=["id", "bytes"], batch_size=256):
                ids, images = (batch.column(name).to_pylist() for name in ("id", "bytes"))
                found |= {str(row): digest_of(image or b"") for row, image in zip(ids, images, strict=True)}
        return found


@lru_cache(maxsize=4)
def _lance(uri: str, mark: str, process: int) -> tuple[Any, dict[int, int]]:  # noqa: ARG001
    data = import_extra("lance").dataset(uri)
    ids = data.to_table(columns=["id"]).column("id").to_pylist()
    return data, dict(zip(ids, range(len(ids)), strict=True))


WANTED = ("id", "path", "label", "class_name", "bytes")


def read_lance(place: str) -> Manifest:
    """A manifest whose images are read one by one, in any order, from a Lance data set; or one of ready vectors."""
    lance = import_extra("lance")
    if not is_url(place) and not Path(place).exists():
        raise DataError(f"there is no Lance data set {place!r}; check the path, or write it with: similis data pack")
    with lance_errors(place):
        data = lance.dataset(place)
        names = data.schema.names
        missing = [name for name in WANTED if name not in names and not (name == "bytes" and "vector" in names)]
        if missing:
            raise DataError(f"{place!r} lacks the columns {missing}; write it with: similis data pack")
        unread = "bytes" if "bytes" in names else "content"  # ready vectors stand for themselves, as in Parquet
        table = data.to_table(columns=[name for name in names if name != unread])
    stored = (table.schema.metadata or {}).get(b"similis.name", b"").decode()
    source = LanceSource(place, tree_version(place).mark) if "bytes" in names else None
    return Manifest(stored or PurePosixPath(place.rstrip("/")).stem, table.replace_schema_metadata(None), source)


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


def write_lance_vectors(files: Sequence[Path], place: str, stamp: Mapping[str, object]) -> None:
    """Join Parquet part files into a new Lance data set, a part at a time; it appears when it is whole."""
    pa, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
    beside = Path(place).with_name(f".{Path(place).name}")
    shutil.rmtree(beside, ignore_errors=True)  # half of one, of an attempt that was killed
    schema = parquet.read_schema(files[0]).with_metadata({STAMP: json.dumps(stamp)})
    batches = (
        batch for path in files for batch in parquet.read_table(path, partitioning=None).cast(schema).to_batches()
    )
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    import_extra("lance").write_dataset(reader, str(beside), schema=schema)
    beside.rename(place)


def read_lance_stamp(place: str) -> dict[str, Any]:
    """What a Lance data set of :func:`write_lance_vectors` states of itself; empty for another one."""
    with lance_errors(place):
        return stamp_of(import_extra("lance").dataset(place).schema.metadata) or {}
