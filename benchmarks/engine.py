"""What Ray costs on top of the work: ``python -m benchmarks.engine``.

``trials``: one-second trials on two slots through our map, against bare tasks of Ray, in turns on one local cluster.
Target: at most 1.10 of the wall time.

``step``: a training step of two workers of Ray Train against the same step under torchrun. Launches alternate, each
with fresh processes, Ray's with a fresh cluster. The ratio is the geometric mean over launches, with its 95 % interval
(Student, of the logarithms). Target: at most 1.03 at its lower end.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

import similis
from benchmarks.rounds import alternate, arguments, measure_rows, median, median_ratio, ratio_interval, take_turns
from similis.engine.process_group import join_group
from similis.engine.ray import connect, ray_library
from similis.engine.ray import map as ray_map
from similis.engine.ray_train import train_on_ray
from similis.networks.embedder import build_embedder
from similis.training.loop import Progress, StepReport, Task, train
from similis.training.optimisers import Rates, Schedule, build_optimiser, parameter_groups
from similis.values import Batch, Communicator

ROWS = ("trials", "step")
TRIALS_TARGET, STEP_TARGET = 1.10, 1.03
TRIALS, SLOTS = 8, 2
WARM, STEPS, BATCH, SIZE, CLASSES = 10, 60, 64, 32, 50


def trial(number: int) -> int:
    """One second."""
    time.sleep(1.0)
    return number


def trials_row(rounds: int) -> dict[str, Any]:
    """Both ways in turns on one cluster with two slots."""
    connect(cpus=SLOTS, store_bytes=100 * 2**20)
    ray = ray_library()
    bare = ray.remote(trial).options(num_cpus=1)
    seconds = alternate({
        "ours": lambda: ray_map(trial, range(TRIALS), workers=SLOTS),
        "bare": lambda: ray.get([bare.remote(number) for number in range(TRIALS)]),
    }, rounds)  # fmt: skip
    ray.shutdown()
    ratio = median_ratio(seconds, "ours", "bare")
    return {"ours s": median(seconds["ours"]), "bare s": median(seconds["bare"]), "ratio": ratio, "low": ratio,
            "high": ratio, "target": TRIALS_TARGET}  # fmt: skip


def steps(communicator: Communicator) -> float:
    """Seconds of a step, the mean after some that warm up; every process has its half of the batch."""
    model = build_embedder(backbone="small_conv", weights=None, dim=64, freeze_batch_norm=True, image_size=SIZE)
    loss = similis.loss("proxy_anchor", num_classes=CLASSES, dim=64)
    rates = Rates("adamw", 1e-4, loss_multiplier=loss.lr_multiplier)
    optimiser = build_optimiser(parameter_groups(model, model.head_parameters, loss, rates), rates)
    number = WARM + STEPS
    task = Task(model, loss, optimiser, Schedule("constant", 0, 1, 1.0), number, number, 0, communicator=communicator)
    own = slice(communicator.rank, None, communicator.world)
    images = torch.randn(BATCH, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))[own]
    batch = Batch(images, (torch.arange(BATCH) // 4)[own], torch.arange(BATCH)[own])
    moments: list[float] = []

    def batches(epoch: int, start: int) -> Iterator[Batch]:  # noqa: ARG001
        return (batch for _ in range(number))

    def after(report: StepReport) -> None:  # noqa: ARG001
        moments.append(time.perf_counter())

    train(task, batches, Progress(), after_step=after, after_epoch=lambda _: True, epochs=1)
    return (moments[-1] - moments[WARM - 1]) / STEPS


def as_rank(file: Path) -> None:
    """One of the processes that torchrun started."""
    with join_group() as communicator:
        found = steps(communicator)
        if communicator.rank == 0:
            file.write_text(json.dumps(found))


def as_driver(file: Path) -> None:
    """A driver with a cluster of its own."""
    connect(cpus=SLOTS, store_bytes=100 * 2**20)
    found = train_on_ray(steps, SLOTS, folder=file.parent)
    file.write_text(json.dumps(found[0]))
    ray_library().shutdown()


def launched(kind: str) -> float:
    """Seconds of a step in a launch of its own."""
    words = {
        "ray": ["-m", "benchmarks.engine", "as_driver"],
        "torchrun": [
            "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(SLOTS), "-m", "benchmarks.engine",
            "as_rank",
        ],
    }[kind]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "seconds"
        quiet = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *words, str(file)], env=quiet, capture_output=True, text=True, check=False
        )
        if not file.exists():
            raise RuntimeError(f"{kind} failed:\n{done.stderr[-3000:]}")
        return float(json.loads(file.read_text()))


def step_row(rounds: int) -> dict[str, Any]:
    """Launches in turns; the first to go changes from round to round."""
    seconds = take_turns({kind: partial(launched, kind) for kind in ("torchrun", "ray")}, rounds)
    low, high = ratio_interval(seconds, "ray", "torchrun")
    ratios = [a / b for a, b in zip(seconds["ray"], seconds["torchrun"], strict=True)]
    return {"ours s": median(seconds["ray"]), "bare s": median(seconds["torchrun"]), "low": low, "high": high,
            "ratio": statistics.geometric_mean(ratios), "target": STEP_TARGET}  # fmt: skip


def page_rows(figures: dict[str, dict[str, float]]) -> Iterator[str]:
    """Lines of the table of ``results/distributed.md``."""
    for name, row in figures.items():
        around = f"{row['low']:.3f} to {row['high']:.3f}" if row["low"] < row["high"] else ""
        seconds = f"{row['ours s']:.3f} s | {row['bare s']:.3f} s"
        yield f"| {name} | {seconds} | {row['ratio']:.3f} | {around} | {row['target']:.2f} |"


def main() -> None:
    """Measure the rows and print them."""
    given = arguments(__doc__ or "", ROWS)
    kinds = {"trials": trials_row, "step": step_row}
    figures = measure_rows("engine", given, ROWS, lambda name: kinds[name](given.rounds))
    print("\n".join(page_rows(figures)))


if __name__ == "__main__":
    if sys.argv[1:2] in (["as_rank"], ["as_driver"]):  # how a launch calls itself
        {"as_rank": as_rank, "as_driver": as_driver}[sys.argv[1]](Path(sys.argv[2]))
    else:
        main()
