"""Micro-batches: what waits is computed together, one bad input fails alone, and a full queue says so."""

import asyncio
from threading import Event

import pytest

from similis.serving.batching import Batcher, BusyError, Work

DEADLINE = 60


def run(scene, compute, capacity=100, most=4):
    """Play a scene with a batcher; the sizes of its batches."""
    sizes = []
    kinds = (Work("a", compute, most), Work("b", lambda values: [-value for value in values], most))
    batcher = Batcher(kinds, capacity, lambda kind, size: sizes.append((kind, size)))

    async def play():
        async with asyncio.timeout(DEADLINE):
            await scene(batcher)

    try:
        asyncio.run(play())
    finally:
        batcher.close()
    return sizes


def test_what_waits_is_computed_together_and_in_turns():
    free = Event()

    def compute(values):
        free.wait(DEADLINE)
        return [10 * value for value in values]

    async def scene(batcher):
        first = batcher.submit("a", [1])
        while len(batcher):  # until the thread has taken it
            await asyncio.sleep(0.001)
        rest = batcher.submit("a", list(range(2, 12))) + batcher.submit("b", [1, 2])
        free.set()
        assert await asyncio.gather(*first, *rest) == [*range(10, 120, 10), -1, -2]

    assert run(scene, compute) == [("a", 1), ("b", 2), ("a", 4), ("a", 4), ("a", 2)]


def test_a_lone_input_does_not_wait_for_others():
    async def scene(batcher):
        for value in range(3):
            assert await batcher.submit("b", [value])[0] == -value

    assert run(scene, list) == [("b", 1)] * 3


def test_one_bad_input_fails_alone():
    def compute(values):
        if 3 in values:
            raise ValueError("three")
        return values

    async def scene(batcher):
        answers = await asyncio.gather(*batcher.submit("a", [1, 2, 3, 4]), return_exceptions=True)
        assert answers[:2] + answers[3:] == [1, 2, 4]
        assert isinstance(answers[2], ValueError)
        assert await batcher.submit("a", [5])[0] == 5  # the thread is alive

    run(scene, compute)


def test_a_full_queue_takes_all_or_nothing():
    free = Event()

    def compute(values):
        free.wait(DEADLINE)
        return values

    async def scene(batcher):
        with pytest.raises(BusyError):
            batcher.submit("a", [1, 2, 3, 4])
        waiting = batcher.submit("a", [1])
        while len(batcher):
            await asyncio.sleep(0.001)
        waiting += batcher.submit("a", [2, 3, 4])
        with pytest.raises(BusyError, match="3 requests are waiting"):
            batcher.submit("b", [5])
        free.set()
        assert await asyncio.gather(*waiting) == [1, 2, 3, 4]

    run(scene, compute, capacity=3)


def test_nothing_is_computed_for_those_who_left():
    free, seen = Event(), []

    def compute(values):
        free.wait(DEADLINE)
        seen.extend(values)
        return values

    async def scene(batcher):
        first, second = batcher.submit("a", [1])[0], None
        while len(batcher):
            await asyncio.sleep(0.001)
        second, third = batcher.submit("a", [2, 3])
        second.cancel()
        free.set()
        assert await asyncio.gather(first, third) == [1, 3]

    run(scene, compute)
    assert seen == [1, 3]
