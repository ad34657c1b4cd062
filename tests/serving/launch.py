"""A server in a process of its own: ``python -m tests.serving.launch JSON``, or a fork of one that imported this."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from similis.serving.limits import Limits
from similis.serving.server import serve


def run(folder: str, options: dict[str, Any], key: str, log: str, told: str) -> None:
    """Serve until a signal comes; what is said goes to one file, and the address to another once it answers."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.environ["SIMILIS_KEY"] = key
    torch.set_num_threads(1)
    limits, store = Limits(**options.pop("limits", {})), options.pop("store", None)
    options.setdefault("port", 0)

    def on_ready(address: str) -> None:
        Path(f"{told}.part").write_text(address)
        Path(f"{told}.part").replace(told)

    serve(Path(folder), store=store and Path(store), limits=limits, on_ready=on_ready, **options)


if __name__ == "__main__":
    run(**json.loads(sys.argv[1]))
