"""A cache of prepared images: decoded once, kept as uint8 within a budget of bytes, shared by workers."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch

from similis.data.images import Pixels

_SHARED_MEMORY = Path("/dev/shm")


class ImageCache:
    """Images by row number in one block of memory; first come, first kept, until the budget is used.

    The block is reserved at once but costs memory only as it fills. Not an LRU: under random access over
    the whole data set no order of eviction is better than none.

    Args:
        rows: number of rows of the manifest.
        budget: bytes.
        shared: for worker processes.
    """

    def __init__(self, rows: int, budget: int, *, shared: bool) -> None:
        if shared and _SHARED_MEMORY.exists():
            budget = min(budget, int(0.9 * shutil.disk_usage(_SHARED_MEMORY).free))
        self.budget = budget
        self._pixels = block(budget, shared)
        self._used = block(8, shared).view(torch.int64).zero_()
        self._starts = block(8 * rows, shared).view(torch.int64).fill_(-1)
        self._shapes = block(8 * rows, shared).view(torch.int32).view(rows, 2)
        # The lock also orders memory: who sees a start sees the pixels that were written before it.
        self._lock: Any = multiprocessing.get_context("spawn").Lock() if shared else threading.Lock()

    def get(self, row: int) -> Pixels | None:
        """The image of a row (H, W, 3), or None; not to be written to."""
        with self._lock:
            start = int(self._starts[row])
        if start < 0:
            return None
        height, width = self._shapes[row].tolist()
        return np.asarray(self._pixels[start : start + 3 * height * width].view(height, width, 3).numpy())

    def put(self, row: int, image: Pixels) -> None:
        """Keep an image if there is room."""
        size = image.size
        with self._lock:
            start = int(self._used[0])
            if start + size > self.budget or int(self._starts[row]) >= 0:
                return
            self._used += size
        self._pixels[start : start + size] = torch.from_numpy(image.reshape(-1).copy())
        self._shapes[row] = torch.tensor(image.shape[:2], dtype=torch.int32)
        with self._lock:
            self._starts[row] = start

    @property
    def used(self) -> int:
        """Bytes in use."""
        return int(self._used[0])


def block(size: int, shared: bool) -> torch.Tensor:
    """Bytes, (size,), uint8; in memory that processes share if asked."""
    if not shared:
        return torch.empty(size, dtype=torch.uint8)
    storage: torch.UntypedStorage = torch.UntypedStorage._new_shared(size, device="cpu")  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=torch.uint8).set_(storage)
