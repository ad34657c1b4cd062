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
def use_seed(*parts: int, device: torch.device | None = None) -> Iterator[None]:
    """PyTorch's generator, and that of the device, set from these numbers inside, and as before outside.

    Layers such as dropout can draw from nothing but the global generator; setting it from (seed,
    step, chunk) makes a step a pure function, so that it can be replayed and resumed.

    Args:
        *parts: the numbers.
        device: where layers draw, the current one of its kind; None for the host alone.
    """
    seed, module = mixed_seed(*parts), None
    if device is not None and device.type != "cpu":
        module = torch.get_device_module(device.type)
    before = None if module is None else module.get_rng_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if module is not None:
            module.manual_seed(seed)
        try:
            yield
        finally:
            if module is not None:
                module.set_rng_state(before)
