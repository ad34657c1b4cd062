"""One training stage of a run: fit on some rows, validate after each epoch, continue after a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from similis.data.sampling import shard
from similis.model.embedder import Embedder
from similis.run.machine import Watch
from similis.run.parts import HeadOnly, Parts, Source, base_loss, build_objective, epoch_batches
from similis.run.sharing import as_first, is_first, settle
from similis.run.spec import RunSpec
from similis.training.average import MovingAverage
from similis.training.checkpoint import flat, load_checkpoint, read_tensors, save_checkpoint, save_tensors
from similis.training.events import Events
from similis.training.folder import RunFolder
from similis.training.gradient_cache import check_independent
from similis.training.loop import Progress, StepReport, Task, train
from similis.training.optimisers import Rates, build_optimiser, parameter_groups
from similis.training.processes import check_joinable
from similis.training.schedules import Schedule
from similis.values import Batch, Communicator

Validate = Callable[[nn.Module], float]


@dataclass
class Stage:
    """What a stage needs: its name, the model, rows to train on, how long, how to validate."""

    name: str
    spec: RunSpec
    parts: Parts
    source: Source
    rows: Tensor
    epochs: int
    folder: RunFolder
    watch: Watch
    validate: Validate | None = None
    communicator: Communicator | None = None


@dataclass(frozen=True)
class Selection:
    """The epoch that validation chose (the last one without validation), its value, and all values."""

    epoch: int
    value: float | None
    history: tuple[float, ...]


def run_stage(stage: Stage) -> Selection:
    """Train, or go on training; the chosen weights are in the folder afterwards."""
    task = build_task(stage)
    check_joinable(task.model.train(), stage.communicator)
    if task.chunk is not None:
        check_independent(task.model.train())
    checkpoint = stage.folder.checkpoint(stage.name)
    progress = Progress()
    notes: dict[str, Any] = {"history": [], "best": None, "best_epoch": 0}
    if checkpoint.exists():
        progress, notes = load_checkpoint(checkpoint, task)
    stage.folder.forget_after(stage.name, progress.step, progress.epoch)
    stage.watch.begins(stage.name, stage.epochs, task.total_steps, progress.step)
    keeper = Keeper(stage, task, notes)
    if not keeper.over(progress):
        events = Events(stage.folder.path / "events" / stage.name) if is_first(stage.communicator) else nullcontext()
        with events as keeper.events:
            train(
                task,
                batches_of(stage),
                progress,
                after_step=keeper.stepped,
                after_epoch=keeper.validated,
                epochs=stage.epochs,
            )
    settle(stage.communicator)
    return Selection(notes["best_epoch"], notes["best"], tuple(notes["history"]))


def load_chosen(model: Embedder, folder: RunFolder, stage: str) -> None:
    """Put the weights that a stage chose into the model."""
    tensors, _ = read_tensors(chosen_path(folder, stage))
    model.load_state_dict({key.partition("/")[2]: value for key, value in tensors.items()})


def chosen_path(folder: RunFolder, stage: str) -> Path:
    """Where the chosen weights of a stage are kept until the run is done."""
    return folder.path / f"best-{stage}.safetensors"


def build_task(stage: Stage) -> Task:
    """Model, loss, optimiser and the settings of a step."""
    t, spec, model, embedder = stage.spec.training, stage.spec, stage.parts.trained, stage.parts.model
    class_ids = torch.unique(stage.source.manifest.labels[stage.rows]).tolist()
    objective = build_objective(spec, class_ids)
    multiplier = base_loss(objective).lr_multiplier if t.loss_multiplier is None else t.loss_multiplier
    rates = Rates(t.optimiser, t.lr, t.head_multiplier, multiplier, t.weight_decay, t.eps, t.momentum)
    if spec.model.trains == "head":
        embedder.backbone.requires_grad_(False)
    optimiser = build_optimiser(parameter_groups(model, embedder.head_parameters, objective, rates), rates)
    steps = len(epoch_batches(spec, stage.source, stage.rows, 0))
    return Task(
        model=model,
        loss=objective,
        optimiser=optimiser,
        schedule=Schedule(t.schedule, t.ramp_steps, t.every_epochs, t.gamma),
        steps_per_epoch=steps,
        total_steps=steps * stage.epochs,
        seed=spec.seed,
        clip_value=t.clip_value,
        clip_norm=t.clip_norm,
        half=t.half,
        chunk=t.chunk,
        frozen_epochs=t.frozen_epochs,
        freeze=embedder.freeze_backbone if t.frozen_epochs and spec.model.trains == "all" else None,
        average=None if t.average_decay is None else MovingAverage(model, t.average_decay),
        communicator=stage.communicator,
    )


def batches_of(stage: Stage) -> Callable[[int, int], Iterator[Batch]]:
    """(epoch, first batch) -> batches, a pure function of spec and data."""

    def batches(epoch: int, start: int) -> Iterator[Batch]:
        rows = epoch_batches(stage.spec, stage.source, stage.rows, epoch)
        if stage.communicator is not None:
            rows = shard(rows, stage.communicator.rank, stage.communicator.world)
        t = stage.spec.training
        return stage.parts.loader.train(rows, policy=t.policy, seed=stage.spec.seed, epoch=epoch, start=start)

    return batches


class Keeper:
    """Writes metrics, checkpoints and the best weights while a stage trains."""

    def __init__(self, stage: Stage, task: Task, notes: dict[str, Any]) -> None:
        self.stage = stage
        self.task = task
        self.notes = notes
        self.events: Events | None = None

    def stepped(self, report: StepReport) -> None:
        """After a step: the line in the metrics, the display, now and then a checkpoint."""
        mined = base_loss(self.task.loss).mined
        counts = {} if mined is None else mined._asdict()
        record = {"stage": self.stage.name, "step": report.progress.step, "loss": report.loss.item(), **counts}
        self.stage.folder.log(record)
        if self.events is not None:
            self.events.scalar("loss", record["loss"], report.progress.step)
        self.stage.watch.stepped(report, counts)
        if report.progress.step % self.stage.spec.training.checkpoint_steps == 0:
            self.checkpoint(report.progress)

    def validated(self, progress: Progress) -> bool:
        """After an epoch: validation, the best weights, a checkpoint; True when patience is over."""
        if self.stage.validate is not None:
            here = self.stage.validate(self.evaluated) if is_first(self.stage.communicator) else None
            self.judge(progress, as_first(here, self.stage.communicator))
        else:
            self.notes["best_epoch"] = progress.epoch
            self.keep_weights(progress.epoch)
        self.checkpoint(progress)
        return self.over(progress)

    def judge(self, progress: Progress, value: float) -> None:
        """Note a validation value; keep the weights if it is the best so far."""
        history, best = self.notes["history"], self.notes["best"]
        history.append(value)
        if best is None or value > best:
            self.notes["best"] = value
            self.keep_weights(progress.epoch)
        self.notes["best_epoch"] = history.index(max(history)) + 1
        self.stage.folder.log(
            {"stage": self.stage.name, "step": progress.step, "epoch": progress.epoch, "recall@1": value}
        )
        if self.events is not None:
            self.events.scalar("recall@1", value, progress.step)
        self.stage.watch.validated(progress.epoch, value, self.notes["best"])

    def over(self, progress: Progress) -> bool:
        """Whether validation has not improved for as long as the specification waits."""
        patience, history = self.stage.spec.training.patience, self.notes["history"]
        waited = len(history) - self.notes["best_epoch"] if history else 0
        return progress.epoch >= self.stage.epochs or (patience is not None and waited >= patience)

    def checkpoint(self, progress: Progress) -> None:
        """Write the position."""
        if is_first(self.stage.communicator):
            save_checkpoint(self.stage.folder.checkpoint(self.stage.name), self.task, progress, self.notes)

    @property
    def evaluated(self) -> nn.Module:
        """The module that is evaluated: the average where there is one."""
        return self.task.model if self.task.average is None else self.task.average.model

    def keep_weights(self, epoch: int) -> None:
        """Write the weights of the whole embedder as they are evaluated now."""
        if not is_first(self.stage.communicator):
            return
        inner = self.evaluated.embedder if isinstance(self.evaluated, HeadOnly) else self.evaluated
        save_tensors(
            chosen_path(self.stage.folder, self.stage.name), flat("model", inner.state_dict()), {"epoch": str(epoch)}
        )
