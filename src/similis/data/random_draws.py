"""Random numbers without state: one generator for each (seed, stream, step), on any worker and in any order."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_WORD = 2**64
_kept = threading.local()  # a generator whose state is set anew for each call


def counter_generator(seed: int, stream: int, step: int = 0) -> np.random.Generator:
    """A counter-based generator (Philox): key = (seed, stream), counter = step.

    Equal arguments give equal numbers on every machine; generators of different arguments are independent.

    Args:
        seed: of the run; any whole number, taken modulo 2^64.
        stream: what the numbers are for (an image's id, a purpose).
        step: the epoch.

    Example:
        >>> float(counter_generator(1, 7).random()) == float(counter_generator(1, 7).random())
        True
        >>> float(counter_generator(1, 7, 0).random()) == float(counter_generator(1, 7, 1).random())
        False
    """
    key, counter = _words(seed, stream, step)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def counter_draws(seed: int, stream: int, step: int, count: int) -> list[float]:
    """The first uniform numbers in [0, 1) of :func:`counter_generator`, without a new generator for each call.

    Example:
        >>> counter_draws(1, 7, 0, 2) == counter_generator(1, 7).random(2).tolist()
        True
    """
    if not hasattr(_kept, "generator"):
        _kept.generator = np.random.Generator(np.random.Philox(key=0))
        _kept.fresh = _kept.generator.bit_generator.state
    key, counter = _words(seed, stream, step)
    _kept.generator.bit_generator.state = _kept.fresh | {"state": {"key": key, "counter": counter}}
    return list(_kept.generator.random(count).tolist())


def _words(seed: int, stream: int, step: int) -> tuple[Words, Words]:
    """Key and counter as unsigned words: a plain list would pass through float64 and lose low bits of a large seed."""
    key = np.array([seed % _WORD, stream % _WORD], dtype=np.uint64)
    return key, np.array([0, 0, 0, step % _WORD], dtype=np.uint64)
