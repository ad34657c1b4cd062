"""Count what a stretch of a program asks of the emulated device."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tests.accelerator.emulator import load

ROOTS = ("/similis/", "/tests/")  # whose lines are named; the emulator's own are not


@dataclass
class Counts:
    """Launches by operator, waits by kind, the line behind each wait, bytes moved by kernels, peak memory.

    One operator counts as one launch; on a card some (sort, topk) are several.
    """

    operators: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    lines: Counter[str] = field(default_factory=Counter)
    traffic: int = 0
    peak: int = 0  # above what was allocated at the beginning
    launches: int = 0  # of kernels
    waits: int = 0  # of the host for the device

    def __str__(self) -> str:
        places = ", ".join(f"{count} x {line}" for line, count in self.lines.most_common())
        return f"{self.launches} launches, {self.waits} waits ({places or 'none'})"


def line_of_caller() -> str:
    """File and line of the innermost frame of the library or of a test."""
    for frame, line in traceback.walk_stack(sys._getframe()):
        name = frame.f_code.co_filename
        if any(root in name for root in ROOTS) and Path(name).parent != Path(__file__).parent:
            return f"{'/'.join(Path(name).parts[-3:])}:{line}"
    return "outside of library and tests"


@contextmanager
def count(allow_waits: bool = True) -> Iterator[Counts]:
    """Count inside, over all threads; not to be nested. Without ``allow_waits`` the first wait is an error.

    Example:
        >>> with count() as counts:
        ...     (torch.ones(3, device="emulated") + 1).sum().item()
        6.0
        >>> counts.waits
        1
    """
    counts = Counts()

    def on_wait(kind: str, operator: str) -> None:
        line = f"{line_of_caller()} ({kind}, {operator})"
        if not allow_waits:
            raise RuntimeError(f"the host waits for the device at {line}")
        counts.lines[line] += 1

    before = torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    load().start(on_wait)
    try:
        yield counts
    finally:
        counts.operators, counts.kinds, counts.traffic = load().stop()
        counts.launches, counts.waits = sum(counts.operators.values()), sum(counts.kinds.values())
        counts.peak = torch.accelerator.max_memory_allocated() - before
