"""Vectors from a file: .npy, .safetensors, Parquet with a column ``vector``, or the gallery of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from similis.data.readers.part_files import list_part_files, read_part_files, read_stamp
from similis.model.bundle_files import holds_model
from similis.model.load import load
from similis.training.files import in_one_line
from similis.values import DataError, import_extra


class NamedVectors(NamedTuple):
    """Vectors (N, D), their ids and labels (None where the file has none), and the hash of their model ("")."""

    vectors: Tensor
    ids: list[str] | None = None
    labels: list[str | None] | None = None
    model_hash: str = ""


def read_vector_file(path: Path) -> NamedVectors:
    """Read vectors by the ending of their file."""
    readers = {".npy": read_npy, ".safetensors": read_safetensors, ".parquet": read_parquet}
    if holds_model(path):
        model = load(path, device="cpu")
        held = model.gallery.contents()
        names, labels = [entry.id for entry in held.entries], [entry.label for entry in held.entries]
        return NamedVectors(held.vectors, names, labels, model.model_hash)
    kind = ".parquet" if path.is_dir() and list_part_files(path) else path.suffix
    if kind not in readers or not path.exists():
        raise DataError(
            f"no vectors at {path}; give a .npy, .safetensors or .parquet file, a folder of part files, "
            "or the folder of a saved model"
        )
    try:
        found = readers[kind](path)
    except DataError:
        raise
    except (OSError, ValueError, SafetensorError) as error:
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
    """Columns ``vector``, perhaps ``id``, and ``class_name`` or ``label``; of a folder all its part files."""
    if path.is_dir():
        table, first = read_part_files(str(path)), list_part_files(path)[0]
    else:
        table, first = import_extra("pyarrow.parquet").read_table(path, partitioning=None), path
    stamp = read_stamp(first) or {}
    if "vector" not in table.column_names:
        raise DataError(f"{path} has the columns {table.column_names}; the vectors belong into a column 'vector'")
    flat = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    if not len(table) or len(flat) % len(table):
        raise DataError(f"{path} has {len(table)} rows and {len(flat)} numbers; every vector needs the same length")
    vectors = torch.from_numpy(np.array(flat).reshape(len(table), -1))
    ids = table["id"].to_pylist() if "id" in table.column_names else range(len(table))
    label = next((name for name in ("class_name", "label") if name in table.column_names), None)
    labels = [None if one is None else str(one) for one in table[label].to_pylist()] if label else None
    return NamedVectors(vectors, [str(name) for name in ids], labels, stamp.get("model", ""))
