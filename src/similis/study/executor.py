"""Where the work of a tournament is done: here or on Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from similis.engine import local, ray
from similis.study.records import Record


@dataclass(frozen=True)
class Executor:
    """Processes of this machine, or tasks of a Ray cluster; the choice changes no number.

    Attributes:
        workers: how many at a time; None for one here, or as many as Ray has resources for.
        on_ray: whether to use Ray.
        address: of an existing cluster; None for one on this machine.
        share: what one task takes of the cluster.
        retries: how often a task may lose its worker.
        on_finished: called with each record as soon as it is there.
    """

    workers: int | None = None
    on_ray: bool = False
    address: str | None = None
    share: ray.Share = field(default_factory=ray.Share)
    retries: int = 10
    on_finished: Callable[[Record], None] | None = None

    def map(self, function: Callable[[Any], Record], items: Iterable[Any]) -> list[Record]:
        """The records of all items, in their order."""
        if not self.on_ray:
            return local.map(
                function, items, workers=1 if self.workers is None else self.workers, on_result=self.on_finished
            )
        ray.connect(self.address)
        return ray.map(
            function, items, workers=self.workers, share=self.share, retries=self.retries, on_result=self.on_finished
        )
