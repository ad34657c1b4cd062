"""Random numbers without state: one generator for each (seed, stream, step), whoever asks and in any order."""

from __future__ import annotations

import numpy as np

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
    # As unsigned words: a plain list would pass through float64 and lose the low bits of a large seed.
    key = np.array([seed % _WORD, stream % _WORD], dtype=np.uint64)
    counter = np.array([0, 0, 0, step % _WORD], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
