"""A server in a process of its own: ``python -m tests.serving.launch FOLDER OPTIONS``, which prints its address."""

import json
import sys
from pathlib import Path

import torch

from similis.serving.limits import Limits
from similis.serving.server import serve

if __name__ == "__main__":
    torch.set_num_threads(1)
    options = json.loads(sys.argv[2])
    limits = Limits(**options.pop("limits", {}))
    store = options.pop("store", None)
    serve(
        Path(sys.argv[1]),
        port=0,
        store=None if store is None else Path(store),
        limits=limits,
        on_ready=lambda address: print(address, flush=True),
        **options,
    )
