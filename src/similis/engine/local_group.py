"""Processes of this machine that share a process group: started once, given work as often as wanted."""

from __future__ import annotations

import pickle
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable
from multiprocessing import connection, get_context
from pathlib import Path
from types import TracebackType
from typing import Any

from similis.engine.local import end_with_parent
from similis.engine.process_group import OnMessage, Place, member_of_group
from similis.values import SimilisError, UserError


class RankFailedError(SimilisError, RuntimeError):
    """A process failed or was lost; the message says which and how."""


class LocalGroup:
    """N processes with a process group, for any number of calls.

    If one of them fails or is lost, all are ended, and the call raises :class:`RankFailedError`, or the error itself
    where it is one of this package, with a sentence for the user.

    Args:
        number: of processes.
        threads: of each process; None leaves torch's choice.
        timeout: seconds that a process waits for the others within one collective.
        device: of the processes, by name; of several devices each process takes one.

    Example:
        >>> from similis.engine.local_group import LocalGroup
        >>> LocalGroup(2).number
        2
    """

    def __init__(self, number: int, *, threads: int | None = 1, timeout: float = 1800.0, device: str = "cpu") -> None:
        if number < 1:
            raise UserError(f"number={number} given; at least one process has to work")
        self.number = number
        self.threads = threads
        self.timeout = timeout
        self.device = device
        self._doors: list[Any] = []
        self._processes: list[Any] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> LocalGroup:
        context = get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="similis-ranks-")
        store = Path(self._folder.name) / "store"
        for rank in range(self.number):
            here, there = context.Pipe()
            process = context.Process(
                target=serve,
                args=(there, Place(rank, self.number, f"file://{store}", self.threads, self.timeout, self.device)),
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
        if kind is not None:  # nobody will ask for what they are doing
            self._kill()
        self.close()

    @property
    def running(self) -> bool:
        """Whether there are processes to call; a failed call ends them."""
        return bool(self._processes)

    def call(self, function: Callable[..., Any], *arguments: Any, on_message: OnMessage | None = None) -> list[Any]:
        """``function(communicator, *arguments)`` in every process; the results in the order of ranks.

        Args:
            function: defined at the top of a module; its first argument is a communicator.
            *arguments: the same for every process; it knows its rank.
            on_message: called here with a rank and what its process says meanwhile; the function then gets a
                last argument more, ``send``, to send it with.
        """
        if not self.running:
            raise UserError("the processes are not running; use `with LocalGroup(2) as group:`")
        work = pickle.dumps(
            (function, arguments, on_message is not None)
        )  # plain bytes: torch would share tensors by open files
        for rank, door in enumerate(self._doors):
            try:
                door.send_bytes(work)
            except OSError:
                self._fail(f"rank {rank} of {self.number} is gone")
        return self._answers(on_message)

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

    def _answers(self, on_message: OnMessage | None) -> list[Any]:
        found: dict[int, Any] = {}
        while len(found) < self.number:
            waiting = [door for rank, door in enumerate(self._doors) if rank not in found]
            for ready in connection.wait(waiting):
                rank = self._doors.index(ready)
                try:
                    what, result = pickle.loads(self._doors[rank].recv_bytes())
                except (EOFError, OSError):
                    self._fail(f"rank {rank} of {self.number} was lost{self._farewell(rank)}")
                if what == "message" and on_message is not None:
                    on_message(rank, result)
                elif what == "failed":
                    self._report(rank, result)
                else:
                    found[rank] = result
        return [found[rank] for rank in range(self.number)]

    def _report(self, rank: int, error: SimilisError | str) -> None:
        if isinstance(error, SimilisError):
            self._kill()
            self.close()
            raise error
        self._name_lost(rank)
        self._fail(f"rank {rank} of {self.number} failed:\n{error}")

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

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()

    def _fail(self, message: str) -> None:
        self._kill()
        self.close()
        raise RankFailedError(message)


def launch(
    function: Callable[..., Any],
    ranks: int,
    *arguments: Any,
    threads: int | None = 1,
    device: str = "cpu",
    on_message: OnMessage | None = None,
) -> list[Any]:
    """``function(communicator, *arguments)`` in fresh processes of this machine; see :meth:`LocalGroup.call`."""
    with LocalGroup(ranks, threads=threads, device=device) as processes:
        return processes.call(function, *arguments, on_message=on_message)


def serve(door: Any, place: Place) -> None:
    """What a process does: join the group, then answer calls until the door closes."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all of a terminal; the parent decides
    voice = Voice(door)
    with member_of_group(place) as communicator:
        while True:
            try:
                function, arguments, sends = pickle.loads(door.recv_bytes())
            except (EOFError, OSError):
                break
            voice.reply(*answer(function, communicator, (*arguments, voice.send) if sends else arguments))


class Voice:
    """The way of a process to its parent; several threads may speak."""

    def __init__(self, door: Any) -> None:
        self.door = door
        self.turn = threading.Lock()

    def reply(self, what: str, value: Any) -> None:
        """One word of what it is, and the value."""
        with self.turn:
            self.door.send_bytes(pickle.dumps((what, value)))

    def send(self, value: Any) -> None:
        """Say something before the result."""
        self.reply("message", value)


def answer(function: Callable[..., Any], communicator: Any, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """``done`` with the result, or ``failed`` with the error: itself if it is this package's, else its text."""
    try:
        return "done", function(communicator, *arguments)
    except SimilisError as error:
        return "failed", error
    except Exception:  # told to the caller, whatever it is
        return "failed", traceback.format_exc()
