"""Processes of this machine that share a process group: started once, given work as often as wanted."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import connection, get_context
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from similis.engine.local import end_with_parent
from similis.values import SimilisError, UserError


class RankError(SimilisError, RuntimeError):
    """A process failed or was lost; the message says which and how."""


class Place(NamedTuple):
    """What a process is told when it starts."""

    rank: int
    world: int
    meeting: str  # file:// on one machine, tcp:// between machines
    threads: int | None
    timeout: float

    @property
    def is_local(self) -> bool:
        """Whether all processes are on this machine."""
        return self.meeting.startswith(("file://", "tcp://127."))


class Ranks:
    """N processes with a process group over gloo, for any number of calls.

    If one of them fails or is lost, all are ended, and the call raises :class:`RankError`.

    Args:
        number: of processes.
        threads: of each process; None leaves torch's choice.
        timeout: seconds that a process waits for the others within one collective.

    Example:
        >>> from similis.engine.ranks import Ranks
        >>> Ranks(2).number
        2
    """

    def __init__(self, number: int, *, threads: int | None = 1, timeout: float = 1800.0) -> None:
        if number < 1:
            raise UserError(f"number={number} given; at least one process has to work")
        self.number = number
        self.threads = threads
        self.timeout = timeout
        self._doors: list[Any] = []
        self._processes: list[Any] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Ranks:
        context = get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="similis-ranks-")
        store = Path(self._folder.name) / "store"
        for rank in range(self.number):
            here, there = context.Pipe()
            process = context.Process(
                target=serve,
                args=(there, Place(rank, self.number, f"file://{store}", self.threads, self.timeout)),
                daemon=True,
            )
            process.start()
            there.close()
            self._doors.append(here)
            self._processes.append(process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether there are processes to call; a failed call ends them."""
        return bool(self._processes)

    def call(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """``function(communicator, *arguments)`` in every process; the results in the order of ranks.

        Args:
            function: defined at the top of a module; its first argument is a communicator.
            *arguments: the same for every process; it knows its rank.
        """
        if not self.running:
            raise UserError("the processes are not running; use `with Ranks(2) as ranks:`")
        work = pickle.dumps((function, arguments))  # plain bytes: torch would share tensors by open files
        for rank, door in enumerate(self._doors):
            try:
                door.send_bytes(work)
            except OSError:
                self._fail(f"rank {rank} of {self.number} is gone")
        return self._answers()

    def close(self) -> None:
        """End the processes."""
        for door in self._doors:
            door.close()  # a process whose door closes returns
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        self._doors, self._processes = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _answers(self) -> list[Any]:
        found: dict[int, Any] = {}
        while len(found) < self.number:
            waiting = [door for rank, door in enumerate(self._doors) if rank not in found]
            for ready in connection.wait(waiting):
                rank = self._doors.index(ready)
                try:
                    good, result = pickle.loads(self._doors[rank].recv_bytes())
                except (EOFError, OSError):
                    self._fail(f"rank {rank} of {self.number} was lost{self._farewell(rank)}")
                if not good:
                    self._name_lost(rank)
                    self._fail(f"rank {rank} of {self.number} failed:\n{result}")
                found[rank] = result
        return [found[rank] for rank in range(self.number)]

    def _name_lost(self, failed: int) -> None:
        """An error may only be the echo of a lost process: say so if one ends within two seconds."""
        others = {p.sentinel: rank for rank, p in enumerate(self._processes) if rank != failed}
        for sentinel in connection.wait(list(others), timeout=2.0):
            rank = next(r for s, r in others.items() if s == sentinel)
            self._fail(f"rank {rank} of {self.number} was lost{self._farewell(rank)}")

    def _farewell(self, rank: int) -> str:
        self._processes[rank].join(5)
        code = self._processes[rank].exitcode
        return "" if code is None else f" (exit code {code})"

    def _fail(self, message: str) -> None:
        for process in self._processes:
            process.kill()
        self.close()
        raise RankError(message)


def launch(function: Callable[..., Any], ranks: int, *arguments: Any, threads: int | None = 1) -> list[Any]:
    """``function(communicator, *arguments)`` in fresh processes of this machine; the results in the order of ranks."""
    with Ranks(ranks, threads=threads) as processes:
        return processes.call(function, *arguments)


def serve(door: Any, place: Place) -> None:
    """What a process does: join the group, then answer calls until the door closes."""
    end_with_parent()
    with member_of_group(place) as communicator:
        while True:
            try:
                function, arguments = pickle.loads(door.recv_bytes())
            except (EOFError, OSError):
                break
            door.send_bytes(pickle.dumps(answer(function, communicator, arguments)))


@contextmanager
def member_of_group(place: Place) -> Iterator[Any]:
    """This process as a member of a new process group over gloo; gives its communicator."""
    if sys.platform == "linux" and place.is_local:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import torch
    import torch.distributed as dist

    from similis.engine.collectives import Collectives

    if place.threads is not None:
        torch.set_num_threads(place.threads)
    wait = timedelta(seconds=place.timeout)
    dist.init_process_group("gloo", init_method=place.meeting, rank=place.rank, world_size=place.world, timeout=wait)
    try:
        yield Collectives()
    finally:
        dist.destroy_process_group()


@contextmanager
def group_of_environment(timeout: float = 1800.0) -> Iterator[Any]:
    """The process group that torchrun describes in the environment, over gloo; gives its communicator."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        raise UserError("RANK and WORLD_SIZE are not set; start this by torchrun, or use similis.engine.ranks.launch")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with member_of_group(Place(rank, world, "env://", None, timeout)) as communicator:
        yield communicator


def answer(function: Callable[..., Any], communicator: Any, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """Whether the function returned, and its result, or the text of its error."""
    try:
        return True, function(communicator, *arguments)
    except Exception:  # told to the caller, whatever it is
        return False, traceback.format_exc()
