"""Rows that ranks share, in files: every rank writes its own, and any number of ranks reads them again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from similis.engine.collectives import Collectives
from similis.values import Communicator, DataError

PIECE = 2**23  # bytes of a piece; a rank holds a few of them beside its rows


class OwnRows(NamedTuple):
    """Rows (n, ...) of this rank, and the number of the first of them among all."""

    rows: Tensor
    first: int


def save_rows(tensors: Mapping[str, OwnRows], folder: Path, communicator: Communicator) -> None:
    """Write the rows of all ranks; the folder is whole when it holds ``.metadata``, which comes last.

    Args:
        tensors: name -> rows of this rank.
        folder: that all ranks see.
        communicator: of the ranks; all of them call this.
    """
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    assert isinstance(communicator, Collectives)
    pieces = {}
    for name, (rows, first) in tensors.items():
        height = max(1, PIECE // max(1, rows[:1].nbytes))
        for start in range(0, len(rows), height):
            pieces[f"{name}@{first + start}"] = rows[start : start + height].detach().cpu()
    # pieces are on the host: nothing to copy ahead; one file for all would hold all of them once more
    writer = FileSystemWriter(folder, single_file_per_rank=False, per_thread_copy_ahead=0)
    save(pieces, storage_writer=writer, process_group=communicator.host)


def saved_names(folder: Path) -> set[str]:
    """Names of the tensors in a folder of :func:`save_rows`."""
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    return {name.rpartition("@")[0] for name in FileSystemReader(folder).read_metadata().state_dict_metadata}


def load_rows(tensors: Mapping[str, OwnRows], folder: Path) -> None:
    """Fill tensors in place with their rows; each rank reads for itself, however many ranks wrote.

    Args:
        tensors: name -> where this rank wants which rows.
        folder: of :func:`save_rows`.
    """
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = FileSystemReader(folder)
    known = reader.read_metadata().state_dict_metadata
    wanted: dict[str, Tensor] = {}
    parts: list[tuple[Tensor, Tensor]] = []  # pieces of which only some rows are wanted, and where those go
    filled = dict.fromkeys(tensors, 0)
    for piece, stored in known.items():
        name, _, begin = piece.rpartition("@")
        if name not in tensors or not isinstance(stored, TensorStorageMetadata):
            continue
        (rows, first), start = tensors[name], int(begin)
        low, high = max(start, first), min(start + stored.size[0], first + len(rows))
        if low >= high:
            continue
        filled[name] += high - low
        here = rows[low - first : high - first]
        whole = here.shape == stored.size
        wanted[piece] = here if whole else torch.empty(stored.size, dtype=rows.dtype)
        if not whole:
            parts.append((here, wanted[piece][low - start : high - start]))
    lacking = [name for name, (rows, _) in tensors.items() if filled[name] != len(rows)]
    if lacking:
        raise DataError(f"{folder} does not hold all rows of {lacking[0]}; it is of another run, or damaged: delete it")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # each rank reads alone, as meant
        load(wanted, storage_reader=reader, no_dist=True)
    for here, found in parts:
        here.copy_(found)
