"""Networks that nothing was trained on: ``python -m benchmarks.untouched [--only ROW] [--json FILE]``.

EfficientNet-lite0, lite1 and lite2 with their ImageNet weights, their own features and pooling, on the test classes of
``benchmarks.fine_tuning`` at its resolutions: the stored size of the photos. Differences are to lite0, paired by query;
intervals resample classes. ``SIMILIS_DATA`` names the folder of photos and of the weights of lite0;
``benchmarks.lite_weights`` makes the others. Results are kept below ``runs/untouched``; the committed record is
``results/untouched.json``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.fine_tuning import DATA, print_gains
from benchmarks.lite_weights import FOLDER, weights
from benchmarks.rounds import arguments, measure_rows
from similis.retrieval.intervals import mean_interval
from similis.run.machine import Machine
from similis.run.result import RunResult
from similis.run.run import run
from similis.run.spec import parse_spec
from similis.run.untouched import COMPARED

NETWORKS = ("lite0", "lite1", "lite2")


def measure(data: str, network: str, machine: Machine) -> RunResult:
    """A run of no epochs, without a head."""
    size, resize = DATA[data]
    name = f"tf_efficientnet_{network}"
    file = weights() if network == "lite0" else str(FOLDER / f"{name}_imagenet.safetensors")
    return run(
        parse_spec(
            {
                "data": {"source": data, "allow_counts": True, "validation_share": 0.2},
                "model": {"backbone": name, "weights": file, "dim": None, "image_size": size, "resize": resize},
                "training": {"epochs": 0, "select": "last"},
                "evaluation": {"ks": [1], "untouched": False},
            }
        ),
        machine,
    )


def figures_of(data: str, network: str, machine: Machine) -> dict[str, Any]:
    """Means and differences to lite0, each with its interval."""
    scores, first = (measure(data, each, machine).scores() for each in (network, NETWORKS[0]))
    found: dict[str, Any] = {"pixels": DATA[data][0], "queries": len(scores["labels"])}
    for name in COMPARED:
        found[name] = list(mean_interval(scores[name], scores["labels"]))
        found[f"gain {name}"] = list(mean_interval(scores[name] - first[name], scores["labels"]))
    return found


def main() -> None:
    """Measure what is asked for, write the record row by row, print the table."""
    jobs = {f"{data} {network}": (data, network) for data in DATA for network in NETWORKS}
    asked = arguments(__doc__ or "", list(jobs))
    machine = Machine(root=Path("runs/untouched"), device="cpu")
    found = measure_rows("untouched", asked, jobs, lambda row: figures_of(*jobs[row], machine))
    print_gains("untouched networks on test classes, per cent", found)


if __name__ == "__main__":
    main()
