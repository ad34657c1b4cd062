"""One run on several processes, of this machine or of a Ray cluster: the numbers of one process, up to rounding."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from similis.engine.local_group import launch
from similis.engine.ray import Share, connect
from similis.engine.worker_group import run_worker_group
from similis.run.machine import Machine, Silence, Watch
from similis.run.remote_progress import Telling, forward_messages, warnings_told
from similis.run.result import RunResult
from similis.run.run import run
from similis.run.spec import RunSpec
from similis.values import Communicator

Said = Callable[[str], None]


def run_on_ranks(
    spec: RunSpec,
    machine: Machine | None = None,
    watch: Watch | None = None,
    *,
    ranks: int,
    threads: int | None = 1,
    on_message: Said | None = None,
) -> RunResult:
    """:func:`run` with each batch divided over ``ranks`` processes; they end with the same result.

    A run that was interrupted may go on with another number of processes: the batches are the same.

    Args:
        spec: everything that decides the numbers.
        machine: as for ``run``.
        watch: a display in this process; it sees what the first of the others does.
        ranks: number of processes; the batch size is that of all of them together.
        threads: of each process.
        on_message: called with each warning or log line of any process.
    """
    machine = machine or Machine()
    if ranks == 1:
        return run(spec, machine, watch)
    heard = forward_messages(watch or Silence(), on_message)
    result: RunResult = launch(run_and_tell, ranks, spec, machine, threads=threads, heard=heard)[0]
    return result


def run_on_ray(
    spec: RunSpec,
    machine: Machine | None = None,
    watch: Watch | None = None,
    *,
    workers: int,
    address: str | None = None,
    share: Share | None = None,
    losses_allowed: int = 10,
    on_message: Said | None = None,
) -> RunResult:
    """:func:`run` on workers of a Ray cluster; it goes on from the last checkpoint when one of them is lost.

    Args:
        spec: everything that decides the numbers.
        machine: as for ``run``; ``root`` must be a folder that all nodes see.
        watch: a display in this process; it sees what the first worker does.
        workers: number of workers; the batch size is that of all of them together.
        address: of an existing cluster; None for one on this machine.
        share: what one worker takes of the cluster.
        losses_allowed: how often workers may be lost before this call gives up.
        on_message: called with each warning or log line of any worker, and when workers are lost.
    """
    share = share or Share()
    connect(address, cpus=max(os.cpu_count() or 1, round(workers * share.cpus + 0.5)) if address is None else None)
    machine = seen_by_all(machine or Machine())
    heard = forward_messages(watch or Silence(), on_message)
    found = run_worker_group(
        run_and_tell, workers, spec, machine, share=share, losses_allowed=losses_allowed, heard=heard
    )
    result: RunResult = found[0]
    return result


def seen_by_all(machine: Machine) -> Machine:
    """Places as they are called on every node: whole paths, and the data's folder from this environment."""
    return replace(machine, root=machine.root.resolve(), data_root=machine.data_root or os.environ.get("SIMILIS_DATA"))


def run_and_tell(communicator: Communicator, spec: RunSpec, machine: Machine, tell: Callable[[Any], None]) -> RunResult:
    """The part of one process, which tells whoever started it how it goes."""
    with warnings_told(tell):
        return run_here(communicator, spec, machine, Telling(tell))


def run_here(communicator: Communicator, spec: RunSpec, machine: Machine, watch: Watch | None = None) -> RunResult:
    """The part of one process; also for torchrun, with ``Collectives()`` as the communicator."""
    return run(spec, replace(machine, communicator=communicator), watch if communicator.rank == 0 else None)
