"""Where independent items are worked on: processes of this machine, or tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from similis.engine import process_pool, ray
from similis.engine.process_pool import Item, Result


@dataclass(frozen=True)
class Executor:
    """Processes of this machine, or tasks of a Ray cluster; the choice changes no number.

    Attributes:
        workers: how many at a time; None for one here, or as many as Ray has resources for.
        on_ray: whether to use Ray.
        address: of an existing cluster; None for one on this machine.
        share: what one task takes of the cluster.
        on_finished: called with each result as soon as it is there.
    """

    workers: int | None = None
    on_ray: bool = False
    address: str | None = None
    share: ray.Share = field(default_factory=ray.Share)
    on_finished: Callable[[Any], None] | None = None

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """The results of all items, in their order."""
        if not self.on_ray:
            workers = 1 if self.workers is None else self.workers
            return process_pool.map(function, items, workers=workers, retries=ray.RETRIES, on_result=self.on_finished)
        ray.connect(self.address)
        return ray.map(function, items, workers=self.workers, share=self.share, on_result=self.on_finished)
