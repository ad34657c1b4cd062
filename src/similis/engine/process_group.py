"""A process as a member of a process group: where the members meet, and what an error of the group looks like."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from similis.values import UserError

OnMessage = Callable[[int, Any], None]  # rank and what it said, at the one who started it


class Place(NamedTuple):
    """What a process is told when it starts."""

    rank: int
    world: int
    init_method: str  # file:// on one machine, tcp:// between machines
    threads: int | None
    timeout: float
    device: str = "cpu"

    @property
    def is_local(self) -> bool:
        """Whether all processes are on this machine."""
        return self.init_method.startswith(("file://", "tcp://127."))


@contextmanager
def member_of_group(place: Place) -> Iterator[Any]:
    """This process as a member of a new process group with its device's backend; gives its communicator."""
    if sys.platform == "linux" and place.is_local:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import torch
    import torch.distributed as dist

    from similis.engine.collectives import Collectives
    from similis.engine.device import choose_device, group_backend, use_device

    if place.threads is not None:
        torch.set_num_threads(place.threads)
    wait = timedelta(seconds=place.timeout)
    device = choose_device(place.device, int(os.environ.get("LOCAL_RANK", place.rank if place.is_local else 0)))
    use_device(device)
    dist.init_process_group(
        group_backend(device), init_method=place.init_method, rank=place.rank, world_size=place.world, timeout=wait
    )
    try:
        yield Collectives(device=device)
    finally:
        dist.destroy_process_group()


@contextmanager
def group_of_environment(timeout: float = 1800.0, device: str = "auto") -> Iterator[Any]:
    """The process group that torchrun describes in the environment; gives its communicator."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        raise UserError(
            "RANK and WORLD_SIZE are not set; start this by torchrun, or use similis.engine.local_group.launch"
        )
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with member_of_group(Place(rank, world, "env://", None, timeout, device)) as communicator:
        yield communicator


def is_group_error(error: BaseException) -> bool:
    """Whether an error only says that the group broke: the reason is with another member.

    Example:
        >>> is_group_error(RuntimeError("gloo/transport: Connection closed")), is_group_error(ValueError("of my own"))
        (True, False)
    """
    import torch.distributed as dist

    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))
