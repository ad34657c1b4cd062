"""TensorBoard event files, where TensorBoard is installed."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any


class Events:
    """Scalars for TensorBoard; without it, nothing is written and nothing is missed (metrics.jsonl has all)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writer: Any = None

    def __enter__(self) -> Events:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            return self
        make: Any = SummaryWriter  # typed or not, as the version of torch has it
        self._writer = make(str(self.folder))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def scalar(self, name: str, value: float, step: int) -> None:
        """One value at one step."""
        if self._writer is not None:
            self._writer.add_scalar(name, value, step)
