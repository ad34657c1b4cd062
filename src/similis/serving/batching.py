"""Micro-batching: one thread computes, and takes what is waiting whenever it is free."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any, NamedTuple

from similis.values import SimilisError


class BusyError(SimilisError):
    """More requests wait than the queue takes."""


class Work(NamedTuple):
    """A kind of work: its name, what computes a batch, and how many make one."""

    name: str
    compute: Callable[[list[Any]], Sequence[Any]]
    most: int


class Job(NamedTuple):
    """An input and the future of its result."""

    value: Any
    waiting: asyncio.Future[Any]


class Batcher:
    """Queues in front of one computing thread, which takes turns between the kinds of work.

    Nothing waits for a batch to fill: a lone request is computed at once, and those that come meanwhile are the next
    batch. If a batch fails, each of its inputs is tried alone, so that one bad image fails alone.

    Args:
        kinds: of work.
        capacity: inputs that may wait, of all kinds together.
        on_batch: called with the kind and the size of every batch.
    """

    def __init__(self, kinds: Sequence[Work], capacity: int, on_batch: Callable[[str, int], None]) -> None:
        self.capacity = capacity
        self._queues = {kind.name: (kind, deque[Job]()) for kind in kinds}
        self._on_batch = on_batch
        self._changed = Condition()
        self._closed = self._waking = False
        self._thread = Thread(target=self._run, name="similis-compute", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return sum(len(queue) for _, queue in self._queues.values())

    def submit(self, kind: str, values: Sequence[Any]) -> list[asyncio.Future[Any]]:
        """Queue inputs, all or none; called from the event loop, where their results arrive."""
        loop = asyncio.get_running_loop()
        if len(self) + len(values) > self.capacity or self._closed:
            raise BusyError(f"{len(self)} requests are waiting; try again in a second")
        jobs = [Job(value, loop.create_future()) for value in values]
        self._queues[kind][1].extend(jobs)
        if not self._waking:
            self._waking = True
            loop.call_soon(self._wake)  # behind the requests that arrived together with this one
        return [job.waiting for job in jobs]

    def _wake(self) -> None:
        with self._changed:
            self._waking = False
            self._changed.notify()

    def close(self) -> None:
        """Compute what is waiting and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or (len(self) and not self._waking))
                if not len(self):
                    return
            for (name, compute, most), queue in self._queues.values():
                taken = [queue.popleft() for _ in range(min(len(queue), most))]
                jobs = [job for job in taken if not job.waiting.cancelled()]  # nobody waits any more
                if jobs:
                    self._on_batch(name, len(jobs))
                    results = _compute(compute, [job.value for job in jobs])
                    jobs[0].waiting.get_loop().call_soon_threadsafe(_deliver, jobs, results)


def _compute(compute: Callable[[list[Any]], Sequence[Any]], values: list[Any]) -> Sequence[Any]:
    """A result or an error for each value."""
    try:
        return compute(values)
    except Exception as error:
        return [error] if len(values) == 1 else [_compute(compute, [value])[0] for value in values]


def _deliver(jobs: Sequence[Job], results: Sequence[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if job.waiting.done():
            continue
        if isinstance(result, Exception):
            job.waiting.set_exception(result)
        else:
            job.waiting.set_result(result)
