"""One run on several ranks, of this machine or of a Ray cluster: the numbers of one process, up to rounding."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from similis.engine.launch_ranks import launch
from similis.engine.ray import Share, connect
from similis.engine.ray_train import train_on_ray
from similis.run.machine import Machine, Watch
from similis.run.result import RunResult
from similis.run.run import run
from similis.run.spec import RunSpec
from similis.training.rank_zero import is_first
from similis.values import Communicator

OpenDisplay = Callable[[], AbstractContextManager[Watch]]  # called by the rank that shows what it does


def run_on_ranks(
    spec: RunSpec,
    machine: Machine | None = None,
    display: OpenDisplay | None = None,
    *,
    ranks: int,
    restarts: int = 3,
) -> RunResult:
    """:func:`run` with each batch divided over ``ranks`` processes; they end with the same result.

    A run that was interrupted may go on with another number of processes: the batches are the same.

    Args:
        spec: everything that decides the numbers.
        machine: as for ``run``.
        display: opens a display in the first process, which shares the screen of this one.
        ranks: number of processes; the batch size is that of all of them together.
        restarts: how often processes may be lost before this call gives up.
    """
    machine = machine or Machine()
    if ranks == 1:
        return run_here(None, spec, machine, display)
    result: RunResult = launch(run_here, ranks, spec, machine, display, device=machine.device, restarts=restarts)[0]
    return result


def run_on_ray(
    spec: RunSpec,
    machine: Machine | None = None,
    display: OpenDisplay | None = None,
    *,
    workers: int,
    address: str | None = None,
    share: Share | None = None,
) -> RunResult:
    """:func:`run` on workers of a Ray cluster; it goes on from the last checkpoint when one of them is lost.

    Args:
        spec: everything that decides the numbers.
        machine: as for ``run``; ``root`` must be a folder that all nodes see.
        display: opens a display in the first worker; Ray brings what it prints to the screen of this process.
        workers: number of workers; the batch size is that of all of them together.
        address: of an existing cluster; None for one on this machine.
        share: what one worker takes of the cluster.
    """
    share = share or Share()
    connect(address, cpus=max(os.cpu_count() or 1, round(workers * share.cpus + 0.5)) if address is None else None)
    machine = machine or Machine()
    device = "cpu" if machine.device == "auto" and not share.gpus else machine.device  # no card that is not its own
    data_root = machine.data_root or os.environ.get("SIMILIS_DATA")
    machine = replace(machine, root=machine.root.resolve(), data_root=data_root, device=device)  # as every node sees it
    result: RunResult = train_on_ray(
        run_here, workers, spec, machine, display, folder=machine.root, share=share, device=machine.device
    )[0]
    return result


def run_here(
    communicator: Communicator | None, spec: RunSpec, machine: Machine, display: OpenDisplay | None = None
) -> RunResult:
    """The part of one rank; also for torchrun, with ``Collectives()`` as the communicator."""
    with display() if display and is_first(communicator) else nullcontext() as watch:
        return run(spec, replace(machine, communicator=communicator), watch)
