"""Functions over items on this machine: a pool of fresh processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import TypeVar

from similis.values import SimilisError, UserError

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkersLostError(SimilisError, RuntimeError):
    """Workers were lost more often than allowed."""


def map(  # noqa: A001 - engine.map is what it is
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int = 1,
    retries: int = 0,
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
    """``[function(item) for item in items]``, computed by that many processes.

    Results come in the order of the items. An item that fails raises its own exception here,
    after the items already begun have ended; items not yet begun are dropped. Processes are spawned, so function and
    items must be importable and picklable; if this process dies, they end too, even by ``kill -9``.

    Args:
        function: of one item, defined at the top of a module.
        items: what to work on; taken as they are needed, so that a generator of a million is fine.
        workers: processes; 1 works in this process.
        retries: how often processes may be lost, by ``kill -9`` or for want of memory; items without a result are
            then begun again in fresh processes.
        on_result: called here with each result as soon as it is there.

    Example:
        >>> map(abs, [-1, 2, -3])
        [1, 2, 3]
    """
    if workers < 1:
        raise UserError(f"workers={workers} given; give 1 or more")
    left = iter(items)
    first = list(islice(left, 2))
    if workers == 1 or len(first) < 2:
        return [report_result(function(item), on_result) for item in chain(first, left)]
    found: dict[int, Result] = {}
    begun: dict[int, Item] = {}
    coming = enumerate(chain(first, left))
    for _ in range(retries + 1):
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=end_with_parent)
        try:
            for number, result in results(pool, function, begun, coming, 2 * workers):
                found[number] = report_result(result, on_result)
            return [found[number] for number in range(len(found))]
        except BrokenProcessPool:
            continue
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    raise WorkersLostError(
        f"processes were lost {retries + 1} times, {len(begun)} items were begun and have no result; if they need more "
        "memory than the machine has, use fewer workers"
    )


def results(
    pool: ProcessPoolExecutor,
    function: Callable[[Item], Result],
    begun: dict[int, Item],
    coming: Iterator[tuple[int, Item]],
    width: int,
) -> Iterator[tuple[int, Result]]:
    """Numbers and results as they come; ``begun`` holds the items, at most ``width``, that have none yet."""
    waiting: dict[Future[Result], int] = {pool.submit(function, item): number for number, item in begun.items()}
    while True:
        for number, item in islice(coming, width - len(waiting)):
            begun[number] = item
            waiting[pool.submit(function, item)] = number
        if not waiting:
            return
        for done in wait_for(waiting, return_when=FIRST_COMPLETED).done:
            number, result = waiting.pop(done), done.result()
            del begun[number]
            yield number, result


def report_result(result: Result, on_result: Callable[[Result], None] | None) -> Result:
    """The result, after ``on_result`` was called with it."""
    if on_result is not None:
        on_result(result)
    return result


def end_with_parent() -> None:
    """Watch the parent from a thread and end this process when it is gone: no orphan goes on writing."""
    parent = parent_process()
    if parent is None:
        return

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()
