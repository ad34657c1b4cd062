"""Work on a Ray cluster: many independent trials, or one function on many workers that share a batch.

Nothing of Ray is imported before one of these functions is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from similis.engine.ranks import Place, member_of_group
from similis.values import MissingExtraError, SimilisError, UserError

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkersLostError(SimilisError, RuntimeError):
    """Workers were lost more often than allowed."""


@dataclass(frozen=True)
class Share:
    """What one trial or worker takes of the cluster.

    Attributes:
        cpus: processors, may be a fraction.
        gpus: graphics cards, may be a fraction.
        memory_bytes: of main memory; None asks for none.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    memory_bytes: int | None = None

    def options(self) -> dict[str, Any]:
        """As Ray names them."""
        named: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        return named if self.memory_bytes is None else named | {"memory": self.memory_bytes}


def ray_library() -> Any:
    """The Ray library; a missing one is answered with the extra that brings it."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "cluster") from None
    return ray


def connect(address: str | None = None, *, cpus: int | None = None, store_bytes: int | None = None) -> None:
    """Join a cluster, or start one on this machine; nothing if this process is connected already.

    Args:
        address: of an existing cluster (``auto``, ``ray://host:10001``); None for a new local one.
        cpus: of a new local one; None for all.
        store_bytes: object store of a new local one; None for Ray's choice.
    """
    ray = ray_library()
    if ray.is_initialized():
        return
    if address is not None:
        ray.init(address=address, log_to_driver=True)
        return
    ray.init(
        address="local",  # not one that happens to run on this machine
        num_cpus=cpus,
        object_store_memory=store_bytes,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",  # a laptop's other addresses may not reach itself
    )


def map(  # noqa: A001 - as in the engine on this machine
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    share: Share | None = None,
    retries: int = 3,
) -> list[Result]:
    """``[function(item) for item in items]``, each item a Ray task.

    Results come in the order of the items. A task whose worker or node is lost starts again; a task
    that raises does not, and its exception is raised here.

    Args:
        function: of one item; called again after a lost worker, so it should go on where it was.
        items: what to work on.
        workers: tasks at a time; None for as many as the cluster has room for.
        share: what one task takes of the cluster.
        retries: lost workers per task before it counts as failed.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers={workers} given; at least one task has to run at a time")
    ray, work = ray_library(), list(items)
    connect()
    task = ray.remote(function).options(max_retries=retries, retry_exceptions=False, **(share or Share()).options())
    waiting: dict[Any, int] = {}
    found: dict[int, Result] = {}
    for number, item in enumerate(work):
        if workers is not None and len(waiting) >= workers:
            finish_one(ray, waiting, found)
        waiting[task.remote(item)] = number
    while waiting:
        finish_one(ray, waiting, found)
    return [found[number] for number in range(len(work))]


def finish_one(ray: Any, waiting: dict[Any, int], found: dict[int, Any]) -> None:
    """Wait for one of the tasks and keep its result; its exception ends the others."""
    (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
    try:
        found[waiting.pop(ready)] = ray.get(ready)
    except Exception as error:
        for other in waiting:
            ray.cancel(other, force=False)
        raise getattr(error, "cause", None) or error from None


def gang(
    function: Callable[..., Result],
    workers: int,
    *arguments: Any,
    share: Share | None = None,
    losses_allowed: int = 3,
    timeout: float = 1800.0,
) -> list[Result]:
    """``function(communicator, *arguments)`` on workers that share a process group; results in the order of ranks.

    When a worker or its node is lost, the others are ended and all start again, so the function must
    go on from its last checkpoint. An exception of the function is raised here and not tried again.

    Args:
        function: its first argument is a communicator.
        workers: their number.
        *arguments: the same for every worker.
        share: what one worker takes of the cluster.
        losses_allowed: how often workers may be lost.
        timeout: seconds that a worker waits for the others within one collective.
    """
    if workers < 1:
        raise UserError(f"workers={workers} given; at least one has to work")
    ray = ray_library()
    connect()
    for _ in range(losses_allowed + 1):
        members = [
            ray.remote(Member).options(max_restarts=0, **(share or Share()).options()).remote() for _ in range(workers)
        ]
        try:
            host, port = ray.get(members[0].place.remote())
            places = [Place(rank, workers, f"tcp://{host}:{port}", None, timeout) for rank in range(workers)]
            calls = [m.work.remote(p, function, arguments) for m, p in zip(members, places, strict=True)]
            return collected(ray, calls)
        except ray.exceptions.RayActorError:
            continue
        finally:
            for member in members:
                ray.kill(member)
    raise WorkersLostError(f"workers were lost {losses_allowed + 1} times; the last checkpoint is kept, run again")


def collected(ray: Any, calls: list[Any]) -> list[Any]:
    """The results of all calls; a lost worker counts before the errors that its loss causes in the others."""
    found: dict[Any, Any] = {}
    failure: Exception | None = None
    until: float | None = None
    open_calls = list(calls)
    while open_calls and (until is None or time.monotonic() < until):
        ready, open_calls = ray.wait(open_calls, num_returns=1, timeout=None if until is None else 1.0)
        for call in ready:
            try:
                found[call] = ray.get(call)
            except ray.exceptions.RayActorError:
                raise
            except Exception as error:  # perhaps only the echo of a lost worker: give Ray time to notice that
                failure, until = error, until or time.monotonic() + 15.0
    if failure is not None:
        raise getattr(failure, "cause", None) or failure from None
    return [found[call] for call in calls]


class Member:
    """One worker of a gang, an actor of Ray."""

    def place(self) -> tuple[str, int]:
        """Address and a free port of this worker's node, where the workers meet."""
        import socket

        host = ray_library().util.get_node_ip_address()
        with socket.socket() as door:
            door.bind((host, 0))
            return host, int(door.getsockname()[1])

    def work(self, place: Place, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Join the group and call the function."""
        with member_of_group(place) as communicator:
            return function(communicator, *arguments)
