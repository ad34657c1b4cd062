"""An emulated accelerator: a device of PyTorch's own kind whose memory is the host's and whose kernels are the CPU's.

Load it before the first backward pass of a process: the autograd engine counts devices once. It refuses what CUDA
refuses (tensors of two devices, generators of another, use after a fork) and counts what costs time there.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import time
import types
from functools import cache
from pathlib import Path

import torch
from torch.utils import cpp_extension

from similis.training.file_lock import hold_lock

NAME = "emulated"
DEVICES = int(os.environ.get("EMULATED_DEVICES", "2"))


def why_not() -> str | None:
    """Why the extension cannot be built here; None if it can."""
    missing = [tool for tool in (cpp_extension.get_cxx_compiler(), "ninja") if shutil.which(tool) is None]
    return f"the emulated device needs {' and '.join(missing)} to be built" if missing else None


def build() -> types.ModuleType:
    """The extension, compiled at its first use into a folder of its own below PyTorch's (TORCH_EXTENSIONS_DIR).

    PyTorch's own lock is a file, which a killed build leaves behind and every later one would wait for. Ours ends with
    its process, and whoever holds it knows that such a file is nobody's.
    """
    sources = [Path(__file__).with_name(name) for name in ("device.cpp", "operators.cpp", "fallback.cpp", "ledger.h")]
    version = hashlib.sha256(b"".join(path.read_bytes() for path in sources) + torch.__version__.encode()).hexdigest()
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or cpp_extension.get_default_build_root()
    folder = Path(root) / f"similis-{version[:12]}"
    with hold_lock(folder / "building"):
        (folder / "lock").unlink(missing_ok=True)
        return cpp_extension.load(  # type: ignore[no-any-return]
            "similis_emulated_device",
            [str(path) for path in sources if path.suffix == ".cpp"],
            extra_cflags=["-O1", "-std=c++20", "-w"],
            build_directory=str(folder),
        )


def index_of(device: object = None) -> int:
    """Number of a device given as a number, a name or a torch.device; the current one for None."""
    found = device if isinstance(device, int) or device is None else torch.device(device).index  # type: ignore[call-overload]
    return torch.accelerator.current_device_index() if found is None else found


def device_module(extension: types.ModuleType) -> types.ModuleType:
    """What PyTorch looks for in ``torch.emulated``."""
    process, generator = os.getpid(), extension.default_generator
    found = types.ModuleType(f"torch.{NAME}")
    found.__dict__.update(
        {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "device_count": lambda: DEVICES,
            "current_device": index_of,
            "set_device": lambda device: torch.accelerator.set_device_index(index_of(device)),
            "synchronize": lambda device=None: torch.accelerator.synchronize(index_of(device)),
            "device": lambda device: torch.accelerator.device_index(index_of(device)),
            "manual_seed": lambda seed: generator(index_of()).manual_seed(seed),
            "manual_seed_all": lambda seed: [generator(i).manual_seed(seed) for i in range(DEVICES)],
            "get_rng_state": lambda device=None: generator(index_of(device)).get_state(),
            "set_rng_state": lambda state, device=None: generator(index_of(device)).set_state(state),
            "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16],
            "_is_in_bad_fork": lambda: os.getpid() != process,
        }
    )
    return found


@cache
def load() -> types.ModuleType:
    """Make ``torch.device("emulated")`` known to PyTorch; the extension behind it, with its counters."""
    extension = build()
    extension.set_devices(DEVICES)
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, device_module(extension))
    torch.utils.generate_methods_for_privateuse1_backend()
    atexit.register(time.sleep, 0.2)  # the thread of the last backward pass lets go of Python objects after its end
    return extension
