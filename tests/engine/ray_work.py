"""What the tests of Ray compute; imported by its workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import torch

from similis.objective.context import distributed
from similis.objective.loss import loss


def square(number: int) -> int:
    if number < 0:
        raise ValueError(f"no square of {number} here")
    return number * number


def dies_once(case: tuple[str, int]) -> int:
    """Kills its own process at the first call of each number, leaving a mark."""
    folder, number = case
    mark = Path(folder) / f"{number}"
    with mark.open("a") as file:
        file.write("x")
    if len(mark.read_text()) == 1 and number % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


X, LABELS = torch.linspace(-1, 1, 24, dtype=torch.float64).view(12, 2).sin(), torch.arange(12) % 4


def joined_loss(communicator) -> float:
    own = slice(6 * communicator.rank, 6 * communicator.rank + 6)
    with distributed(communicator):
        return float(loss("multi_similarity")(X[own], LABELS[own]))


def alone() -> float:
    return float(loss("multi_similarity")(X, LABELS))


def counting(communicator, folder: str, steps: int, deadly: int) -> list[int]:
    """Counts to ``steps`` with a checkpoint after each; the second worker kills itself once, at step ``deadly``."""
    kept, died = Path(folder) / "checkpoint", Path(folder) / "died"
    begun = int(kept.read_text()) if kept.exists() else 0
    communicator.barrier()
    for step in range(begun, steps):
        if step == deadly and communicator.rank == 1 and not died.exists():
            died.write_text("x")
            os.kill(os.getpid(), signal.SIGKILL)
        total = int(communicator.sum(torch.tensor(1)))
        assert total == communicator.world
        if communicator.rank == 0:
            kept.write_text(str(step + 1))
        communicator.barrier()
    return [begun, steps]


def wrong(communicator) -> None:
    raise ValueError(f"worker {communicator.rank} has no idea")


def slow_square(case: tuple[str, int]) -> int:
    """One second of work, a mark for each beginning."""
    folder, number = case
    with (Path(folder) / f"{number}").open("a") as file:
        file.write("x")
    time.sleep(1.0)
    return number * number
