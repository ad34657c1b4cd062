"""A run in many processes: the first writes, the others look on; each waits for what the first has written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from similis.training.files import explain_write_errors
from similis.training.folder import RunFolder
from similis.values import Communicator


class Onlooker(RunFolder):
    """The run folder as the other processes see it: they read it and write nothing."""

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Nothing: the first process writes."""

    def tidy(self, names: Iterable[str]) -> None:
        """Nothing: the first process removes."""

    def log(self, record: Mapping[str, Any]) -> None:
        """Nothing: the first process notes."""

    def forget_after(self, stage: str, step: int, epoch: int) -> None:
        """Nothing: the first process forgets."""


def is_first(communicator: Communicator | None) -> bool:
    """Whether this process writes."""
    return communicator is None or communicator.rank == 0


def folder_for(path: Path, communicator: Communicator | None) -> RunFolder:
    """The run folder, to be written by the first process only."""
    return RunFolder(path) if is_first(communicator) else Onlooker(path)


@contextmanager
def sole_writer(folder: RunFolder, communicator: Communicator | None) -> Iterator[None]:
    """Hold a run folder while this run writes in it; wait until another process has left it.

    After a lost node its process may live on for a moment, and must not write beside its successor. The lock is
    the kernel's, so it ends with the process that holds it, however that ends.
    """
    if not is_first(communicator):
        yield
        return
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    with explain_write_errors(folder.path):
        folder.path.mkdir(parents=True, exist_ok=True)
        held = (folder.path / ".lock").open("a")
    with held:
        with explain_write_errors(folder.path):
            fcntl.lockf(held, fcntl.LOCK_EX)  # unlike flock: children that load images do not inherit it
        yield


def wait_for_all(communicator: Communicator | None) -> None:
    """Wait until every process has come here: what the first one wrote can be read."""
    if communicator is not None:
        communicator.barrier()


def as_first(value: float | None, communicator: Communicator | None) -> float:
    """A number that the first process has, at all processes."""
    if communicator is None:
        assert value is not None
        return value
    return float(communicator.broadcast(torch.tensor(value or 0.0, dtype=torch.float64)))
