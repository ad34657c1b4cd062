"""Ranks that are started once and given work as often as wanted: the tests call them thousands of times."""

from __future__ import annotations

import os
import pickle
import tempfile
import traceback
from multiprocessing import connection
from pathlib import Path

import torch

from similis.engine.process_group import join_group
from similis.engine.process_pool import end_with_parent
from similis.values import SimilisError
from tests.forking import FORKING


class PoolError(RuntimeError):
    """A rank failed or was lost; the pool is closed."""


class Pool:
    """N processes with a process group over gloo; a call that fails ends all of them."""

    def __init__(self, number: int, timeout: float = 120.0) -> None:
        self.number, self.timeout = number, timeout
        self.doors, self.processes = [], []

    def start(self) -> Pool:
        self.folder = tempfile.TemporaryDirectory(prefix="similis-pool-")
        for rank in range(self.number):
            here, there = FORKING.Pipe()
            arguments = (there, rank, self.number, Path(self.folder.name) / "store", self.timeout)
            process = FORKING.Process(target=serve, args=arguments, daemon=True)
            process.start()
            there.close()
            self.doors.append(here)
            self.processes.append(process)
        return self

    def call(self, function, *arguments) -> list:
        """``function(communicator, *arguments)`` in every process; the results in the order of ranks."""
        work = pickle.dumps((function, arguments))  # plain bytes: torch would share tensors by open files
        for door in self.doors:
            door.send_bytes(work)
        found: dict[int, object] = {}
        while len(found) < self.number:
            for ready in connection.wait([door for rank, door in enumerate(self.doors) if rank not in found]):
                rank = self.doors.index(ready)
                try:
                    done, found[rank] = pickle.loads(ready.recv_bytes())
                except (EOFError, OSError):
                    done, found[rank] = False, "was lost"
                if not done:
                    self.close()
                    error = found[rank]
                    raise error if isinstance(error, SimilisError) else PoolError(f"rank {rank}: {error}")
        return [found[rank] for rank in range(self.number)]

    def close(self) -> None:
        """End the processes; one that waits for a lost peer is killed."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        if self.processes:
            self.folder.cleanup()
        self.doors, self.processes = [], []


def serve(door, rank: int, world: int, store: Path, timeout: float) -> None:
    """What a process does: join the group, then answer calls until it is ended."""
    end_with_parent()
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    with join_group("cpu", store=store, timeout=timeout) as communicator:
        while True:
            function, arguments = pickle.loads(door.recv_bytes())
            try:
                answer = True, function(communicator, *arguments)
            except SimilisError as error:
                answer = False, error
            except Exception:  # told to the caller, whatever it is
                answer = False, traceback.format_exc()
            door.send_bytes(pickle.dumps(answer))
