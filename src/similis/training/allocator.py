"""Freed memory stays with the process: large tensors come and go in every step."""

from __future__ import annotations

import ctypes
import platform

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_BLOCK = 2**30
_NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Ask the C library to reuse freed blocks of up to 1 GiB and to give nothing back to the system.

    By default glibc maps every large block anew and returns it when it is freed, so each step of a
    network pays page faults for all its activations: a quarter of the processor time of a step of
    EfficientNet-lite0 at 96 pixels on one thread, measured by ``python -m benchmarks.step --only allocator``.
    The peak stays what it was; memory that is free between steps is not seen by other processes. No
    number changes. What is free at the moment of the call goes back to the system, for its blocks are of other sizes.

    Returns:
        Whether the C library is glibc and has agreed.

    Example:
        >>> keep_freed_memory() in (True, False)
        True
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    library.malloc_trim(0)
    agreed = [library.mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK), library.mallopt(_TRIM_THRESHOLD, _NEVER)]
    return all(agreed)
