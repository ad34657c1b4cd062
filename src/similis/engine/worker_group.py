"""One function on workers of a Ray cluster that share a process group; all begin again when one of them is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from similis.engine.local import WorkersLostError
from similis.engine.process_group import OnMessage, Place, is_group_error, member_of_group
from similis.engine.ray import Share, connect, enter, ray_library
from similis.values import SimilisError, UserError

Result = TypeVar("Result")

ECHO_SECONDS = 2.0  # how long a broken group is given to name the member whose own error broke it
ROOM_SECONDS = 10.0  # how long we wait for room in silence
NOBODY = -1  # the rank of what the engine itself says


class GroupBrokenError(SimilisError, RuntimeError):
    """A worker cannot reach the others any more."""


class Order(NamedTuple):
    """What a worker group is to do."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    workers: int
    share: Share
    timeout: float
    device: str
    on_message: OnMessage | None


def run_worker_group(
    function: Callable[..., Result],
    workers: int,
    *arguments: Any,
    share: Share | None = None,
    losses_allowed: int = 10,
    timeout: float = 1800.0,
    device: str = "cpu",
    on_message: OnMessage | None = None,
) -> list[Result]:
    """``function(communicator, *arguments)`` on workers that share a process group; results in the order of ranks.

    Room for all of them is reserved at once. When a worker or its node is lost, the others are ended and all start
    again, as soon as there is room, so the function must go on from its last checkpoint. An exception of the
    function is raised here and not tried again.

    Args:
        function: its first argument is a communicator.
        workers: their number.
        *arguments: the same for every worker.
        share: what one worker takes of the cluster.
        losses_allowed: how often workers may be lost.
        timeout: seconds that a worker waits for the others within one collective.
        device: of the workers, by name; a worker sees those that its share gives it.
        on_message: called here with a rank and what its worker says meanwhile; the function then gets a last
            argument more, ``send``, to send it with. What the engine says has the rank -1.
    """
    if workers < 1:
        raise UserError(f"workers={workers} given; at least one has to work")
    ray = ray_library()
    connect()
    order = Order(function, arguments, workers, share or Share(), timeout, device, on_message)
    for lost in range(1, losses_allowed + 2):
        try:
            return try_once(ray, order)
        except (ray.exceptions.RayActorError, GroupBrokenError) as error:
            if on_message is not None:
                on_message(NOBODY, f"a worker was lost ({lost}): all begin again from the last checkpoint")
            reason = str(error).strip().splitlines()[0]
    raise WorkersLostError(
        f"workers were lost {losses_allowed + 1} times, at last: {reason}; the last checkpoint is kept, run again"
    )


def try_once(ray: Any, order: Order) -> list[Any]:
    """One attempt: reserve room, start the workers, listen, collect; everything is given back at the end."""
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    room = placement_group([order.share.bundle() or {"CPU": 0.001}] * order.workers)
    actors: list[Any] = []
    try:
        wait_for_room(ray, room, order)
        if order.on_message is not None:
            actors.append(ray.remote(Mailbox).options(num_cpus=0, **near_driver(ray)).remote())
        mailbox = actors[0] if actors else None
        inside = PlacementGroupSchedulingStrategy(room)
        kind = ray.remote(Member).options(max_restarts=0, scheduling_strategy=inside, **order.share.options())
        members = [kind.remote() for _ in range(order.workers)]
        actors += members
        host, port = ray.get(members[0].place.remote())
        meeting, home = f"tcp://{host}:{port}", str(Path.cwd())
        calls = [
            member.work.remote(
                Place(rank, order.workers, meeting, None, order.timeout, order.device), home, order[:2], mailbox
            )
            for rank, member in enumerate(members)
        ]
        return collect_results(ray, calls, mailbox, order.on_message)
    finally:
        for actor in actors:
            ray.kill(actor)
        remove_placement_group(room)


def wait_for_room(ray: Any, room: Any, order: Order) -> None:
    """Wait until the cluster has room for all workers; say so when it takes long."""
    ready = room.ready()
    if not ray.wait([ready], timeout=ROOM_SECONDS)[0] and order.on_message is not None:
        free = ray.available_resources().get("CPU", 0)
        order.on_message(NOBODY, f"waiting for room for {order.workers} workers; {free:g} processors are free")
    ray.get(ready)


def near_driver(ray: Any) -> dict[str, Any]:
    """Options that keep an actor on the node of this process, which is lost only together with it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=True)}


def collect_results(ray: Any, calls: list[Any], mailbox: Any, on_message: OnMessage | None) -> list[Any]:
    """The results of all calls. An error of a worker's own counts before those that it causes in the others."""
    found: dict[Any, Any] = {}
    echo: Exception | None = None
    until = float("inf")
    open_calls = list(calls)
    while open_calls and time.monotonic() < until:
        quick = on_message is not None or echo is not None
        ready, open_calls = ray.wait(open_calls, num_returns=1, timeout=0.2 if quick else None)
        for call in ready:
            try:
                found[call] = ray.get(call)
            except ray.exceptions.RayTaskError as error:
                cause = getattr(error, "cause", None) or error
                if not isinstance(cause, GroupBrokenError):
                    raise cause from None
                echo, until = cause, min(until, time.monotonic() + ECHO_SECONDS)
        if on_message is not None:
            for rank, words in ray.get(mailbox.take.remote()):
                on_message(rank, words)
    if echo is not None:
        raise echo
    return [found[call] for call in calls]


class Mailbox:
    """What the workers say, until the driver takes it; an actor of Ray."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, Any]] = []

    def post(self, rank: int, words: Any) -> None:
        """Keep what a worker says."""
        self.kept.append((rank, words))

    def take(self) -> list[tuple[int, Any]]:
        """All that was kept, in its order."""
        kept, self.kept = self.kept, []
        return kept


class Member:
    """One worker of a worker group, an actor of Ray."""

    def place(self) -> tuple[str, int]:
        """Address and a free port of this worker's node, where the workers meet."""
        import socket

        host = ray_library().util.get_node_ip_address()
        with socket.socket() as door:
            door.bind((host, 0))
            return host, int(door.getsockname()[1])

    def work(self, place: Place, home: str, call: tuple[Callable[..., Any], tuple[Any, ...]], mailbox: Any) -> Any:
        """Join the group and call the function, in the driver's folder where this node has it."""
        enter(home)
        posted: list[Any] = []

        def send(words: Any) -> None:
            posted[:] = [mailbox.post.remote(place.rank, words)]

        try:
            with member_of_group(place) as communicator:
                function, arguments = call
                result = function(communicator, *arguments, *([] if mailbox is None else [send]))
        except Exception as error:
            if is_group_error(error):
                raise GroupBrokenError(str(error)) from None
            raise
        ray_library().get(posted)  # the last words arrive before the result
        return result
