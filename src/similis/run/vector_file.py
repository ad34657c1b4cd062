"""Vectors from a file: .npy, .safetensors, Parquet with a column ``vector``, or the gallery of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from similis.run.bundle_files import ABOUT
from similis.run.load import load
from similis.training.files import in_one_line
from similis.values import DataError, import_extra

HASH_KEY = b"similis_model_hash"  # of the metadata of a Parquet file


class NamedVectors(NamedTuple):
    """Vectors (N, D), their ids and labels (None where the file has none), and the hash of their model ("")."""

    vectors: Tensor
    ids: list[str] | None = None
    labels: list[str | None] | None = None
    model_hash: str = ""


def read_vector_file(path: Path) -> NamedVectors:
    """Read vectors by the ending of their file."""
    readers = {".npy": read_npy, ".safetensors": read_safetensors, ".parquet": read_parquet}
    if (path / ABOUT).exists():
        model = load(path, device="cpu")
        held = model.gallery.contents()
        names, labels = [entry.id for entry in held.entries], [entry.label for entry in held.entries]
        return NamedVectors(held.vectors, names, labels, model.model_hash)
    if path.suffix not in readers or not path.is_file():
        raise DataError(
            f"no vectors at {path}; give a .npy, .safetensors or .parquet file, or the folder of a saved model"
        )
    try:
        found = readers[path.suffix](path)
    except (OSError, ValueError, SafetensorError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read ({in_one_line(error)}); write it again") from error
    if found.vectors.ndim != 2 or not found.vectors.is_floating_point():
        raise DataError(
            f"{path} holds {tuple(found.vectors.shape)} of {found.vectors.dtype}; a matrix (N, D) of floats is needed"
        )
    return found


def read_npy(path: Path) -> NamedVectors:
    """An array, read as it is needed."""
    return NamedVectors(torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False)))


def read_safetensors(path: Path) -> NamedVectors:
    """The tensor ``vectors``, or the only one there is."""
    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
        name = "vectors" if "vectors" in names else names[0]
        if name != "vectors" and len(names) > 1:
            raise DataError(f"{path} holds {names}; name the tensor of the vectors 'vectors'")
        return NamedVectors(file.get_tensor(name))


def read_parquet(path: Path) -> NamedVectors:
    """Columns ``vector``, and ``id`` and ``label`` where they are there."""
    table = import_extra("pyarrow.parquet").read_table(path)
    if "vector" not in table.column_names:
        raise DataError(f"{path} has the columns {table.column_names}; the vectors belong into a column 'vector'")
    flat = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    if not len(table) or len(flat) % len(table):
        raise DataError(f"{path} has {len(table)} rows and {len(flat)} numbers; every vector needs the same length")
    vectors = torch.from_numpy(np.array(flat).reshape(len(table), -1))
    labels = strings(table, "label")
    ids = strings(table, "id")
    model_hash = (table.schema.metadata or {}).get(HASH_KEY, b"").decode()
    return NamedVectors(vectors, None if ids is None else [str(name) for name in ids], labels, model_hash)


def strings(table: Any, column: str) -> list[str | None] | None:
    """A column as texts, None for nulls; None if it is not there."""
    if column not in table.column_names:
        return None
    return [None if value is None else str(value) for value in table[column].to_pylist()]
