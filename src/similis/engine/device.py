"""The device that computes: chosen by name, one for each rank."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from similis.values import UserError

if TYPE_CHECKING:
    import torch

CPU = "cpu"
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
STATUS = Path("/proc/self/status")
GIB = 2**30


def choose_device(name: str = "auto", rank: int = 0) -> torch.device:
    """The device of that name; raises where this machine does not have it.

    Args:
        name: ``auto`` (the accelerator of this machine, or else the processor), ``cpu``, ``cuda``, ``cuda:1``,
            ``mps``, ``xpu``, or any device type that is registered with PyTorch.
        rank: of this process on its machine; without an index in the name, ranks take the devices in turn.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
        >>> choose_device("abacus")
        Traceback (most recent call last):
        ...
        similis.values.UserError: there is no device 'abacus' here; ...
    """
    import torch

    # A build for CUDA on a machine without a card: one release raises here, another names the card that is not there.
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if name == "auto":
        device = torch.device(CPU) if found is None else torch.device(found.type)
    else:
        try:
            device = torch.device(name)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:  # a missing build raises one, a missing card the other
            here = CPU if found is None else f"{CPU} and {found.type}"
            raise UserError(f"there is no device {name!r} here; available: {here}, or auto for the best") from error
    if device.type == CPU or ":" in name:
        return device
    count = torch.get_device_module(device.type).device_count()
    return torch.device(device.type, rank % max(count, 1))


def use_device(device: torch.device) -> None:
    """Make a device the current one of this process, where collectives and draws expect it."""
    import torch

    if device.type != CPU:
        torch.get_device_module(device.type).set_device(device.index)


def describe_device(device: torch.device) -> str:
    """A device in words: its name where it has one, or the number of threads."""
    import torch

    if device.type == CPU:
        count = torch.get_num_threads()
        return f"cpu, {count} thread{'s' if count > 1 else ''}"
    module = torch.get_device_module(device.type)
    name = module.get_device_name(device.index) if hasattr(module, "get_device_name") else ""
    return f"{device}" + (f", {name}" if name else "")


def count_cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory(device: torch.device) -> int | None:
    """Most bytes that this process has held so far, on a card or in the host's memory; None where it is unknown."""
    import torch

    if device.type != CPU:
        module = torch.get_device_module(device.type)
        return int(module.max_memory_allocated(device)) if hasattr(module, "max_memory_allocated") else None
    with suppress(OSError, IndexError):  # getrusage counts the peak of the parent too
        return 1024 * int(STATUS.read_text().partition("VmHWM:")[2].split()[0])
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # of what getrusage counts
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def total_memory(device: torch.device) -> int:
    """Whole GiB of a device's memory, used or not: of the machine or its container for the processor."""
    import torch

    if device.type != CPU:
        module = torch.get_device_module(device.type)
        if hasattr(module, "get_device_properties"):
            return int(module.get_device_properties(device).total_memory) // GIB
        if hasattr(module, "recommended_max_memory"):  # Metal shares the memory of the machine
            return int(module.recommended_max_memory()) // GIB
    sizes = [8 * GIB]  # for a system that does not say
    with suppress(AttributeError, ValueError, OSError):
        sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError):  # no such file, or no limit: "max"
        sizes.append(int(CONTAINER_LIMIT.read_text()))
    return max(1, min(sizes) // GIB)
