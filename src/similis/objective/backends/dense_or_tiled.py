"""When a comparison is computed in tiles, and how large they are."""

from __future__ import annotations

from functools import cache

import torch

from similis.objective.context import Tiling, current_context

DENSE_LIMIT = (
    2**21
)  # numbers, 1,448 x 1,448: below, one matrix measured faster (up to 1.8 times), at 2,048 x 2,048 tiles
DEEP_LIMIT = 2**19  # pairs of several numbers
DENSE_DEPTH = 16  # a product of 10 vectors a class is so dear that making it again in tiles costs more than it saves
TILE_SIZE = 2**18  # numbers of a tile: a megabyte, so that a few of them stay in a second cache
TILE_COLUMNS = 1024
POSITIVE_ROWS = 128
CPU = torch.device("cpu")
UNKNOWN_MEMORY = 2**32  # bytes that are taken to be free where nobody can tell


# An accelerator waits for launches, not for its memory: few large kernels.
PAIR_BYTES = 36  # of a dense matrix and what its backward pass keeps, for each number
DENSE_SHARE = 0.25  # of the memory that is free when a process first asks
DEVICE_TILE = Tiling(4096, 4096)


def choose_tiling(rows: int, columns: int, depth: int = 1, device: torch.device = CPU) -> Tiling | None:
    """The tiling of a comparison: none up to ``DENSE_LIMIT`` numbers or inside a compiled graph.

    Up to ``DEEP_LIMIT`` pairs may have ``DENSE_DEPTH`` numbers each; a pair of more counts as several. On a device the
    matrix is dense while it fits ``DENSE_SHARE`` of the free memory, then in tiles of ``DEVICE_TILE``.

    Args:
        rows: number of rows.
        columns: number of columns of all blocks.
        depth: numbers behind one similarity (vectors of a class, positives of an anchor).
        device: where the comparison is made.
    """
    chosen = current_context().tiling
    if chosen != "auto":
        return chosen
    if device.type != "cpu":
        if fits_dense(rows, columns, depth, device):
            return None
        return DEVICE_TILE._replace(columns=max(1, DEVICE_TILE.columns // depth))
    pairs = rows * columns
    if pairs * depth <= DENSE_LIMIT or pairs * max(depth, DENSE_DEPTH) <= DEEP_LIMIT * DENSE_DEPTH:
        return None
    wide = max(1, min(columns, TILE_COLUMNS // depth))
    return Tiling(max(1, min(rows, TILE_SIZE // (wide * depth))), wide)


def positive_rows(tiling: Tiling, device: torch.device) -> int:
    """Rows whose positives are looked at together: the fewer, the fewer strangers among the columns."""
    return min(tiling.rows, POSITIVE_ROWS if device.type == "cpu" else max(POSITIVE_ROWS, tiling.rows // 4))


def fits_dense(rows: int, columns: int, depth: int, device: torch.device) -> bool:
    """Whether a matrix with ``depth`` numbers for each pair takes no more than ``DENSE_SHARE`` of a device's memory."""
    return rows * columns * depth * PAIR_BYTES <= DENSE_SHARE * free_memory(device)


@cache
def free_memory(device: torch.device) -> int:
    """Bytes that are free on a device, asked for once: a choice must not change from step to step."""
    module = torch.get_device_module(device.type)
    if hasattr(module, "mem_get_info"):
        return int(module.mem_get_info(device)[0])
    if hasattr(module, "recommended_max_memory"):  # MPS shares the memory of the host
        return int(module.recommended_max_memory() - module.current_allocated_memory())
    if hasattr(torch.accelerator, "get_memory_info"):
        return int(torch.accelerator.get_memory_info(device)[0])
    return UNKNOWN_MEMORY
