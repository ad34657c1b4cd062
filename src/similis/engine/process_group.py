"""A process as a member of a process group: the one that torchrun, the elastic launcher or Ray Train started it for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from similis.values import UserError

if TYPE_CHECKING:
    from similis.engine.collectives import Collectives

# Seconds that a process waits for the others within one collective. Long, because the first rank may embed a whole test
# split alone; a lost rank is noticed by its launcher or its closed connection.
TIMEOUT = 86400.0


@contextmanager
def join_group(device: str = "auto", *, store: Path | None = None, timeout: float = TIMEOUT) -> Iterator[Collectives]:
    """This process as a member of the group that its environment describes, by the backend of its device.

    Args:
        device: by name; of several devices each process of a machine takes one.
        store: a file where processes of one machine meet; None for ``MASTER_ADDR`` and ``MASTER_PORT``.
        timeout: seconds that this process waits for the others within one collective.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        raise UserError("RANK and WORLD_SIZE are not set; start this by torchrun, or use engine.launch_ranks.launch")
    import torch.distributed as dist

    from similis.engine.collectives import Collectives
    from similis.engine.device import choose_device, use_device

    if store is not None and sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    chosen = choose_device(device, int(os.environ.get("LOCAL_RANK", rank)))
    use_device(chosen)
    dist.init_process_group(
        dist.get_default_backend_for_device(chosen),
        init_method="env://" if store is None else f"file://{store}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=timeout),
    )
    try:
        yield Collectives(device=chosen)
    finally:
        dist.destroy_process_group()
