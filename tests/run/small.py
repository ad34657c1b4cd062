"""A run of a second or two: drawn shapes, a small network without batch norm's cost."""

import json
import os
import signal
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from similis.data.catalogue import known
from similis.data.sampling import samplers
from similis.networks.backbone import backbones
from similis.registry import losses, miners
from similis.run.machine import Machine, Watch
from similis.run.prepared import prepare
from similis.run.result import RunResult
from similis.run.run import prepare_parts, run
from similis.run.spec import RunSpec, parse_spec, replace_values
from similis.run.stage import Stage
from similis.training.folder import RunFolder
from tests.forking import start

for registry in (losses, miners, backbones, samplers, known):
    registry.fill()  # a process that is forked from one that imported this file has them all

VALUES = {
    "data": {"source": "synthetic?classes=12&images=6&size=16", "validation_share": 0.34},
    "model": {"backbone": "small_conv", "weights": None, "dim": 8, "image_size": 16, "freeze_batch_norm": False,
              "options": {"width": "slim", "depth": 1}},
    "training": {"epochs": 2, "batch_size": 12, "per_class": 3, "lr": 0.001, "checkpoint_steps": 1},
}  # fmt: skip


def small(**changes) -> RunSpec:
    """The small specification with other values; a double underscore stands for a dot."""
    return parse_spec(replace_values(VALUES, {key.replace("__", "."): value for key, value in changes.items()}))


def ran(root: Path, watch=None, workers: int = 0, **changes) -> RunResult:
    """Run it below a folder."""
    return run(small(**changes), Machine(root=root, workers=workers, cache_bytes=2**20), watch)


def stage_of(root: Path, **changes) -> Stage:
    """The first stage of it, not begun."""
    spec = small(**changes)
    run_ = prepare(spec, Machine(root=root, cache_bytes=0))
    root.mkdir(exist_ok=True)
    rows = run_.source.split.train
    return Stage("select", run_, prepare_parts(run_), rows, spec.training.epochs, RunFolder(root), Watch())


def remains(folder: Path) -> dict[str, object]:
    """Everything of a finished run that must not depend on how often it was interrupted: all but times."""
    binary = ("model.safetensors", "scores.safetensors", "embeddings.safetensors")
    kept: dict[str, object] = {name: (folder / name).read_bytes() for name in binary}
    for name in ("result.json", "selection.json"):
        kept[name] = timeless(json.loads((folder / name).read_text()))
    kept["metrics"] = [timeless(r) for r in RunFolder(folder).records() if "opened" not in r]
    kept["files"] = sorted(p.name for p in folder.iterdir())
    return kept


def timeless(values: dict[str, object]) -> str:
    """Plain values as text, without what a clock said."""
    return json.dumps({k: v for k, v in values.items() if k not in ("cost", "mining_seconds")})


def folder_in(root: Path) -> Path:
    """The one run below a folder."""
    (folder,) = (path for path in root.glob("[!.]*") if path.is_dir() and path.name != "features")
    return folder


class Killer(Watch):
    """A watch that kills its own process, without any farewell, at a step, after a validation, or at a refit's step.

    With a mark it does so only once.
    """

    def __init__(self, moment: str, number: int, mark: Path | None = None) -> None:
        self.place, self.mark = (moment, number), mark
        self.stepping = "step"

    def on_stage_start(self, stage, epochs, steps, done) -> None:
        self.stepping = "refit" if stage == "refit" else "step"

    def on_step(self, report, mined) -> None:
        self.reach(self.stepping, report.progress.step)

    def on_validation(self, epoch, value, best) -> None:
        self.reach("validation", epoch)

    def reach(self, *place) -> None:
        if place != self.place or (self.mark and self.mark.exists()):
            return
        if self.mark:
            self.mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def child(threads: int, root: str, changes: dict, moment: str, number: int) -> None:
    """What a process that is to be killed does, with the threads of the run that it is compared with."""
    torch.set_num_threads(threads)
    ran(Path(root), Killer(moment, number), **changes)


def started(root: Path, changes: dict, moment: str = "", number: int = 0) -> BaseProcess:
    """A process that runs the small specification."""
    return start(child, torch.get_num_threads(), str(root), changes, moment, number)


def kill_at(root: Path, changes: dict, moment: str, number: int) -> None:
    """Run in a process that is killed at a moment."""
    process = started(root, changes, moment, number)
    process.join()
    assert process.exitcode == -signal.SIGKILL
