"""Vectors from a file, block by block: .npy, .safetensors, Parquet with a column ``vector``, or a saved model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from similis.data.readers.part_files import list_part_files, read_listing, stamp_of
from similis.data.table import vector_rows
from similis.model.bundle_files import holds_model
from similis.model.load import load
from similis.training.files import in_one_line
from similis.values import DataError, import_extra

BLOCK = 2**16


class NamedVectors(NamedTuple):
    """Vectors (N, D), their ids and labels (None where the file has none), and the hash of their model ("")."""

    vectors: Tensor
    ids: list[str] | None = None
    labels: list[str | None] | None = None
    model_hash: str = ""


def read_vectors(path: Path) -> Iterator[NamedVectors]:
    """The blocks of vectors of a file, by its ending; of a folder all part files of ``similis embed``."""
    readers = {".npy": read_npy, ".safetensors": read_safetensors, ".parquet": read_parquet, "model": read_gallery}
    kind = path.suffix
    if path.is_dir():
        kind = "model" if holds_model(path) else ".parquet" if list_part_files(path) else ""
    if kind not in readers or not path.exists():
        raise DataError(
            f"no vectors at {path}; give a .npy, .safetensors or .parquet file, a folder of part files, "
            "or the folder of a saved model"
        )
    try:
        for block in readers[kind](path):
            shape = tuple(block.vectors.shape)
            if len(shape) != 2 or not block.vectors.is_floating_point():
                raise DataError(f"{path} holds {shape} of {block.vectors.dtype}; a matrix (N, D) of floats is needed")
            yield block
    except DataError:
        raise
    except (OSError, TypeError, ValueError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read ({in_one_line(error)}); write it again") from error


def read_gallery(path: Path) -> Iterator[NamedVectors]:
    """The gallery of a saved model."""
    model = load(path, device="cpu")
    held = model.gallery.contents()
    names, labels = [entry.id for entry in held.entries], [entry.label for entry in held.entries]
    yield NamedVectors(held.vectors, names, labels, model.model_hash)


def read_npy(path: Path) -> Iterator[NamedVectors]:
    """An array, read as it is needed."""
    yield from blocks_of(torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False)))


def read_safetensors(path: Path) -> Iterator[NamedVectors]:
    """The tensor ``vectors``, or the only one there is."""
    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
        if "vectors" not in names and len(names) != 1:
            raise DataError(f"{path} holds {names}; name the tensor of the vectors 'vectors'")
        yield from blocks_of(file.get_tensor("vectors" if "vectors" in names else names[0]))


def blocks_of(vectors: Tensor) -> Iterator[NamedVectors]:
    """A tensor in blocks of rows."""
    for start in range(0, max(1, len(vectors)) if vectors.ndim else 1, BLOCK):
        yield NamedVectors(vectors[start : start + BLOCK] if vectors.ndim else vectors)


def read_parquet(path: Path) -> Iterator[NamedVectors]:
    """Columns ``vector``, perhaps ``id``, and ``class_name`` or ``label``; of a folder all its part files."""
    files, before = list_part_files(path) if path.is_dir() else [path], 0
    for file in files:
        opened = import_extra("pyarrow.parquet").ParquetFile(file)
        names, stamp = opened.schema_arrow.names, stamp_of(opened.schema_arrow.metadata) or {}
        if stamp and path.is_dir() and file == files[0]:
            read_listing(str(path))
        if "vector" not in names:
            raise DataError(f"{path} has the columns {names}; the vectors belong into a column 'vector'")
        for batch in opened.iter_batches(BLOCK):
            yield read_batch(batch, path, before)._replace(model_hash=stamp.get("model", ""))
            before += len(batch)


def read_batch(batch: Any, path: Path, before: int) -> NamedVectors:
    """Some rows of a table, with the number of those before them."""
    names, vectors = batch.schema.names, torch.from_numpy(vector_rows(batch.column("vector"), f"vectors of {path}"))
    ids = batch.column("id").to_pylist() if "id" in names else range(before, before + len(batch))
    label = next((name for name in ("class_name", "label") if name in names), None)
    labels = [None if one is None else str(one) for one in batch.column(label).to_pylist()] if label else None
    return NamedVectors(vectors, [str(name) for name in ids], labels)
