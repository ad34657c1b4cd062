"""``python -m similis.run.on_ray run.yaml --workers 4``: one run on the workers of a Ray cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from similis.engine.ray import Share
from similis.run.machine import Machine
from similis.run.ranks import run_on_ray
from similis.run.spec import read_spec


def main(arguments: list[str] | None = None) -> None:
    """Read the specification and run it on the cluster."""
    parser = argparse.ArgumentParser(prog="similis.run.on_ray", description=__doc__)
    parser.add_argument("spec", type=Path, help="YAML or JSON specification")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs, seen by every node")
    parser.add_argument("--workers", type=int, default=2, help="processes that share each batch")
    parser.add_argument("--address", default=None, help="of an existing cluster, for example auto")
    parser.add_argument("--cpus", type=float, default=1.0, help="processors of each worker")
    parser.add_argument("--gpus", type=float, default=0.0, help="graphics cards of each worker")
    given = parser.parse_args(arguments)
    run_on_ray(
        read_spec(given.spec),
        Machine(root=given.runs),
        workers=given.workers,
        address=given.address,
        share=Share(given.cpus, given.gpus),
    )


if __name__ == "__main__":
    main()
