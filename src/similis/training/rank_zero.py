"""Several ranks, one run folder: the first rank writes, the others wait for what it has written."""

from __future__ import annotations

import torch

from similis.values import Communicator


def is_first(communicator: Communicator | None) -> bool:
    """Whether this rank writes."""
    return communicator is None or communicator.rank == 0


def wait_for_all(communicator: Communicator | None) -> None:
    """Wait until every rank has come here: what the first one wrote can be read."""
    if communicator is not None:
        communicator.barrier()


def share_first(value: float | None, communicator: Communicator | None) -> float:
    """A number that the first rank has, on all ranks."""
    if communicator is None:
        assert value is not None
        return value
    return float(communicator.broadcast(torch.tensor(value or 0.0, dtype=torch.float64)))
