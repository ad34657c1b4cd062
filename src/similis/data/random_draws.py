"""Random numbers without state: one generator for each (seed, stream, step), on any worker and in any order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_WORD = 2**64


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


def _words(seed: int, stream: int, step: int) -> tuple[Words, Words]:
    """Key and counter as unsigned words: a plain list would pass through float64 and lose low bits of a large seed."""
    key = np.array([seed % _WORD, stream % _WORD], dtype=np.uint64)
    return key, np.array([0, 0, 0, step % _WORD], dtype=np.uint64)
