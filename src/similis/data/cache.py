"""A cache of prepared images: decoded once, kept as uint8 within a budget of bytes, shared by workers."""

from __future__ import annotations

import mmap
import multiprocessing
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

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
        self._file = None
        if shared:
            place = _SHARED_MEMORY if _SHARED_MEMORY.exists() else Path(tempfile.gettempdir())
            budget = min(budget, int(0.9 * shutil.disk_usage(place).free))
            self._file = tempfile.NamedTemporaryFile(dir=place, prefix="similis-images-")  # noqa: SIM115 - lives as long as the cache
        self.rows = rows
        self.budget = budget
        self._view(None if self._file is None else self._file.name)
        self._used[0] = 0
        self._starts[:] = -1
        # The lock also orders memory: a reader that sees a start sees the pixels that were written before it.
        self._lock: Any = multiprocessing.get_context("spawn").Lock() if shared else threading.Lock()

    def _view(self, path: str | None) -> None:
        """Lay the tables and the pixels out in one block: a file that processes map, or memory of this one."""
        self._path = path
        head, size = 8 * (1 + 2 * self.rows), 8 * (1 + 2 * self.rows) + self.budget
        # Arrays, not tensors: their single values are read in a tenth of the time.
        block: NDArray[np.uint8] = (
            np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)  # not of malloc, which may give used pages
            if path is None
            else torch.from_file(path, shared=True, size=size, dtype=torch.uint8).numpy()
        )
        tables = block[:head].view(np.int64)
        self._used, self._starts = tables[:1], tables[1 : 1 + self.rows]
        self._shapes = tables[1 + self.rows :].view(np.int32).reshape(self.rows, 2)
        self._pixels = block[head:]

    def __getstate__(self) -> dict[str, Any]:
        """What a worker process gets: the file's name in place of its contents."""
        return {"rows": self.rows, "budget": self.budget, "path": self._path, "lock": self._lock}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Map the file of the process that made the cache, which deletes it."""
        self.rows, self.budget, self._lock, self._file = state["rows"], state["budget"], state["lock"], None
        self._view(state["path"])

    def get(self, row: int) -> Pixels | None:
        """The image of a row (H, W, 3), or None; not to be written to."""
        with self._lock:
            start = int(self._starts[row])
        if start < 0:
            return None
        height, width = self._shapes[row].tolist()
        return self._pixels[start : start + 3 * height * width].reshape(height, width, 3)

    def put(self, row: int, image: Pixels) -> None:
        """Keep an image if it fits into the budget."""
        size = image.size
        with self._lock:
            start = int(self._used[0])
            if start + size > self.budget or int(self._starts[row]) >= 0:
                return
            self._used += size
        self._pixels[start : start + size] = image.reshape(-1)
        self._shapes[row] = image.shape[:2]
        with self._lock:
            self._starts[row] = start
