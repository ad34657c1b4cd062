"""Small runs whose numbers are on record: ``python -m tests.golden.runs`` writes the record anew.

Write it only together with a raised ``NUMERICS``: the record says which version its numbers belong to.
"""

import json
import tempfile
from pathlib import Path

import torch

from similis.run.machine import Machine
from similis.run.run import run
from similis.run.spec import parse_spec, replace_values
from similis.training.folder import RunFolder

RECORD = Path(__file__).with_name("runs.json")

BASE = {
    "data": {"source": "synthetic?classes=12&images=8&size=16", "validation_share": 0.34},
    "model": {"backbone": "small_conv", "weights": None, "dim": 8, "image_size": 16, "freeze_batch_norm": False},
    "training": {"epochs": 2, "batch_size": 12, "per_class": 3, "lr": 0.001},
}

RUNS = {
    "proxy_anchor": {"objective.loss": "proxy_anchor"},
    "multi_similarity, memory": {"objective.loss": "multi_similarity", "objective.memory": 40},
    "triplet, semi-hard": {"objective.loss": "triplet", "objective.miner": "semi_hard"},
    "normface, nested": {"objective.loss": "normface", "objective.nested_sizes": [4, 8]},
}


def measure(name: str) -> dict[str, list[float]]:
    """The losses of all steps, and the score of every test query."""
    torch.set_num_threads(1)
    spec = parse_spec(replace_values(BASE, RUNS[name]))
    with tempfile.TemporaryDirectory() as root:
        result = run(spec, Machine(root=Path(root), cache_bytes=2**20))
        steps = [record["loss"] for record in RunFolder(result.folder).records() if "loss" in record]
        return {"losses": steps, **{key: [result.test[key]] for key in ("recall@1", "recall@2", "map@r")}}


def main() -> None:
    """Measure all runs and write the record."""
    from similis.run.address import NUMERICS

    record = {"numerics": NUMERICS, "runs": {name: measure(name) for name in RUNS}}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
