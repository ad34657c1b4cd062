"""Work on a Ray cluster: joining it, and many independent items as its tasks.

Nothing of Ray is imported before one of these functions is called.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from similis.engine.process_pool import Item, Result, WorkersLostError, report_result
from similis.values import UserError, import_extra

RETRIES = 10  # lost workers
WAITING = 8  # tasks for each processor of the cluster that are begun or wait


@dataclass(frozen=True)
class Share:
    """What one trial or worker takes of the cluster.

    Attributes:
        cpus: processors, may be a fraction.
        gpus: graphics cards, may be a fraction.
    """

    cpus: float = 1.0
    gpus: float = 0.0

    def options(self) -> dict[str, Any]:
        """As Ray names them for tasks and actors."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}

    def bundle(self) -> dict[str, float]:
        """As Ray names them when it reserves them."""
        return {name: amount for name, amount in (("CPU", self.cpus), ("GPU", self.gpus)) if amount}


def ray_library() -> Any:
    """The Ray library; if it is missing, an error names the extra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody unasked
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a process without a card hides the cards
    return import_extra("ray")


def connect(address: str | None = None, *, cpus: int | None = None, store_bytes: int | None = None) -> None:
    """Join a cluster, or start one on this machine; nothing if this process is connected already.

    Args:
        address: of an existing cluster (``auto``, ``host:6379``, ``ray://host:10001``); None for a new local one.
        cpus: of a new local one; None for all.
        store_bytes: object store of a new local one; None for Ray's choice.
    """
    ray = ray_library()
    if ray.is_initialized():
        return
    if address is not None:
        try:
            ray.init(address=address, log_to_driver=True, logging_level=logging.WARNING)
        except ConnectionError as error:
            raise UserError(
                f"no Ray cluster answers at {address!r} ({error}); start one with: ray start --head"
            ) from None
        return
    ray.init(
        address="local",  # not one that happens to run on this machine
        num_cpus=cpus,
        object_store_memory=store_bytes,
        include_dashboard=False,
        logging_level=logging.WARNING,
        _node_ip_address="127.0.0.1",  # a laptop's other addresses may not reach itself
    )


def map(  # noqa: A001 - as in the engine on this machine
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    share: Share | None = None,
    retries: int = RETRIES,
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
    """``[function(item) for item in items]``, each item a Ray task.

    Results come in the order of the items. A task whose worker or node is lost starts again; a task
    that raises does not, and its exception is raised here. Tasks work in the folder of this process where their
    node has it.

    Args:
        function: of one item; called again after a lost worker, so it should go on where it was.
        items: what to work on; taken as they are needed.
        workers: tasks at a time; None for as many as the cluster can run, and some that wait.
        share: what one task takes of the cluster.
        retries: lost workers per task before it counts as failed.
        on_result: called with each result as soon as it is there.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers={workers} given; give 1 or more")
    ray, share = ray_library(), share or Share()
    connect()
    task = ray.remote(call_at).options(max_retries=retries, retry_exceptions=False, **share.options())
    home, waiting, found = str(Path.cwd()), dict[Any, int](), dict[int, Result]()

    def finish_one() -> None:
        number, result = first_result(ray, waiting, retries)
        found[number] = report_result(result, on_result)

    for number, item in enumerate(items):
        if len(waiting) >= (workers or WAITING * ray.cluster_resources().get("CPU", 1.0)):
            finish_one()
        waiting[task.remote(home, function, item)] = number
    while waiting:
        finish_one()
    return [found[number] for number in range(len(found))]


def first_result(ray: Any, waiting: dict[Any, int], retries: int) -> tuple[int, Any]:
    """Wait for one of the tasks; its number and result. Its exception ends the others."""
    (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
    number = waiting.pop(ready)
    try:
        return number, ray.get(ready)
    except ray.exceptions.RayError as error:
        for task in waiting:
            ray.cancel(task, force=False)
        if isinstance(error, ray.exceptions.RayTaskError):
            raise getattr(error, "cause", None) or error from None
        raise WorkersLostError(
            f"item {number} lost its worker {retries + 1} times ({error}); if it needs more memory or time than its "
            "node has, give it a larger share"
        ) from None


def call_at(home: str, function: Callable[[Item], Result], item: Item) -> Result:
    """Call the function in the caller's folder."""
    enter(home)
    return function(item)


def enter(home: str) -> None:
    """Work in a folder, where this node has it: relative paths mean what they meant to the caller."""
    if Path(home).is_dir():
        os.chdir(home)
