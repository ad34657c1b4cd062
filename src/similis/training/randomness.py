"""Random numbers of a step: dropout and its like draw from a generator that the step's number sets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def mixed_seed(*parts: int) -> int:
    """One 63-bit seed from several numbers, the same on every machine."""
    text = ",".join(str(part) for part in parts).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


@contextmanager
def use_seed(*parts: int) -> Iterator[None]:
    """PyTorch's generator set from these numbers inside, and as before outside.

    Layers such as dropout can draw from nothing but the global generator; setting it from (seed,
    step, chunk) makes a step a pure function, so that it can be replayed and resumed.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(mixed_seed(*parts))
        yield
