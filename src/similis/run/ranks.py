"""One run on several processes of this machine: the numbers of one process, up to rounding."""

from __future__ import annotations

from dataclasses import replace

from similis.engine.ranks import launch
from similis.engine.ray import Share, connect, gang
from similis.run.machine import Machine, Watch
from similis.run.result import RunResult
from similis.run.run import run
from similis.run.spec import RunSpec
from similis.values import Communicator


def run_on_ranks(spec: RunSpec, machine: Machine | None = None, *, ranks: int, threads: int | None = 1) -> RunResult:
    """:func:`run` with each batch divided over ``ranks`` processes; they end with the same result.

    A run that was interrupted may go on with another number of processes: the batches are the same.

    Args:
        spec: everything that decides the numbers.
        machine: as for ``run``.
        ranks: number of processes; the batch size is that of all of them together.
        threads: of each process.
    """
    machine = machine or Machine()
    if ranks == 1:
        return run(spec, machine)
    result: RunResult = launch(run_here, ranks, spec, machine, threads=threads)[0]
    return result


def run_on_ray(
    spec: RunSpec,
    machine: Machine | None = None,
    *,
    workers: int,
    address: str | None = None,
    share: Share | None = None,
) -> RunResult:
    """:func:`run` on workers of a Ray cluster; it goes on from the last checkpoint when one of them is lost.

    Args:
        spec: everything that decides the numbers.
        machine: as for ``run``; ``root`` must be a folder that all nodes see.
        workers: number of workers; the batch size is that of all of them together.
        address: of an existing cluster; None for one on this machine.
        share: what one worker takes of the cluster.
    """
    connect(address)
    result: RunResult = gang(run_here, workers, spec, machine or Machine(), share=share)[0]
    return result


def run_here(communicator: Communicator, spec: RunSpec, machine: Machine, watch: Watch | None = None) -> RunResult:
    """The part of one process; also for torchrun, with ``Collectives()`` as the communicator."""
    return run(spec, replace(machine, communicator=communicator), watch if communicator.rank == 0 else None)
