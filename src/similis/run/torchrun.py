"""``torchrun -m similis.run.torchrun run.yaml``: one run on the processes of torchrun, SLURM or Kubernetes."""

from __future__ import annotations

import argparse
from pathlib import Path

from similis.engine.process_group import join_group
from similis.run.distributed import run_here
from similis.run.machine import Machine
from similis.run.spec import read_spec


def main(arguments: list[str] | None = None) -> None:
    """Read the specification and run it as one of the processes that torchrun started."""
    parser = argparse.ArgumentParser(prog="similis.run.torchrun", description=__doc__)
    parser.add_argument("spec", type=Path, help="YAML or JSON specification")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs, seen by every process")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, xpu, ...; each rank takes one")
    given = parser.parse_args(arguments)
    with join_group(given.device) as communicator:
        run_here(communicator, read_spec(given.spec), Machine(root=given.runs))


if __name__ == "__main__":
    main()
