"""Where ``similis train`` computes: in this process, in several of this machine, or on a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass

from similis.cli.train_display import Display
from similis.run.machine import Machine
from similis.run.result import RunResult
from similis.run.spec import RunSpec
from similis.values import UserError


@dataclass(frozen=True)
class Where:
    """What was asked for.

    Attributes:
        ranks: processes of this machine.
        workers: of a Ray cluster; None for none.
        address: of an existing cluster; None for one on this machine.
        cpus: processors of each worker.
        gpus: graphics cards of each worker.
    """

    ranks: int = 1
    workers: int | None = None
    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def check(self) -> None:
        """Refuse what contradicts itself."""
        if self.ranks < 1 or (self.workers is not None and self.workers < 1):
            wrong = f"--ranks {self.ranks}" if self.ranks < 1 else f"--workers {self.workers}"
            raise UserError(f"{wrong} given; at least one process has to work")
        if self.ranks > 1 and self.workers is not None:
            raise UserError("--ranks are processes of this machine and --workers those of Ray; give one of the two")
        if self.address is not None and self.workers is None:
            raise UserError(f"--address {self.address} is that of a Ray cluster; say how many --workers it gives")


def run_where(spec: RunSpec, machine: Machine, where: Where, display: Display) -> RunResult:
    """Run there; whatever the processes say comes to this display."""
    if where.workers is not None:
        from similis.engine.ray import Share
        from similis.run.distributed import run_on_ray

        return run_on_ray(
            spec,
            machine,
            display,
            workers=where.workers,
            address=where.address,
            share=Share(where.cpus, where.gpus),
            on_line=display.on_line,
        )
    from similis.run.distributed import run_on_ranks

    return run_on_ranks(spec, machine, display, ranks=where.ranks, on_line=display.on_line)
