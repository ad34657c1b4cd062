"""One training stage of a run: fit on some rows, validate after each epoch, continue after a crash."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from similis.data.samplers.mined import mined_batches
from similis.data.sampling import shard_batches
from similis.model.embedder import Embedder
from similis.objective.loss import Loss
from similis.objective.sharding import shard as divide_classes
from similis.retrieval.offline_mining import Mined
from similis.run.machine import Machine, Watch
from similis.run.parts import Parts, Source, base_loss, build_objective, epoch_batches, resolve_sampler
from similis.run.recorder import Keeper, chosen_contents, chosen_path
from similis.run.sharing import as_first, is_first, wait_for_all
from similis.run.spec import RunSpec
from similis.training.checkpoint import Checkpoint, last_checkpoint, restore
from similis.training.events import Events
from similis.training.files import DamagedError
from similis.training.folder import RunFolder
from similis.training.gradient_cache import check_batch_norm
from similis.training.loop import Progress, Task, train
from similis.training.optimisers import (
    MovingAverage,
    Rates,
    Schedule,
    build_optimiser,
    interpolate,
    parameter_groups,
)
from similis.training.tensors import load_model, read_tensors
from similis.values import Batch, Communicator, UserError

Validate = Callable[[nn.Module], float]
logger = logging.getLogger(__name__)


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
    divide: bool = False  # class vectors over the processes
    device: torch.device | str = "cpu"

    @property
    def contents(self) -> str:
        """What its checkpoints say they hold: another run's, or another stage's, are not mistaken for them."""
        return f"{self.folder.address}/{self.name}"

    def share_with(self, machine: Machine) -> Stage:
        """The same, shared by the machine's processes in its way."""
        return replace(
            self,
            communicator=machine.communicator,
            divide=machine.divide_classes,
            device=machine.chosen,
        )


@dataclass(frozen=True)
class Selection:
    """The epoch that validation chose (the last one without validation), its value, all values, time of mining.

    ``share`` is how much of the training the model keeps, see ``training.interpolate``.
    """

    epoch: int
    value: float | None
    history: tuple[float, ...]
    mining_seconds: float = 0.0
    share: float = 1.0


def run_stage(stage: Stage) -> Selection:
    """Train, or go on training; the chosen weights are in the folder afterwards."""
    task = build_task(stage)
    world = 1 if stage.communicator is None else stage.communicator.world
    check_batch_norm(task.model.train(), world=world, chunk=task.chunk)
    progress = Progress()
    notes: dict[str, Any] = {"history": [], "best": None, "best_epoch": 0, "mining_seconds": 0.0}
    kept = usable_checkpoint(stage)
    if kept is not None:
        restore(task, kept)
        progress, notes = kept.progress, kept.notes
    stage.folder.forget_after(stage.name, progress.step, progress.epoch)
    stage.watch.on_stage_start(stage.name, stage.epochs, task.steps_per_epoch * stage.epochs, progress.step)
    last = stage.folder.checkpoint(stage.name)
    keeper = Keeper(stage, task, notes, sound=kept is not None and kept.path == last)
    if not keeper.over(progress):
        events = Events(stage.folder.path / "events" / stage.name) if is_first(stage.communicator) else nullcontext()
        with events as keeper.events:
            train(
                task,
                batches_of(stage, task),
                progress,
                before_epoch=keeper.mined if resolve_sampler(stage.spec) == "mined" else None,
                after_step=keeper.on_step,
                after_epoch=keeper.on_epoch_end,
                epochs=stage.epochs,
            )
    wait_for_all(stage.communicator)
    return Selection(notes["best_epoch"], notes["best"], tuple(notes["history"]), notes["mining_seconds"])


def usable_checkpoint(stage: Stage) -> Checkpoint | None:
    """The last sound checkpoint of a stage, if the weights that it calls the best are still there."""
    kept = last_checkpoint(stage.folder.checkpoint(stage.name), stage.contents)
    if kept is None or not kept.notes["best_epoch"]:
        return kept
    try:
        contents = chosen_contents(stage.folder, stage.name)
        _, described = read_tensors(chosen_path(stage.folder, stage.name), contents)
    except DamagedError as error:
        logger.warning("%s begins again, because its best weights are lost: %s", stage.name, error)
        return None
    epoch = int(described["epoch"])
    # weights of a later epoch than the checkpoint's will be made again before anything asks for them
    return kept if epoch == kept.notes["best_epoch"] or epoch > kept.progress.epoch else None


def load_chosen(model: Embedder, folder: RunFolder, stage: str) -> None:
    """Put the weights that a stage chose into the model."""
    load_model(model, chosen_path(folder, stage), chosen_contents(folder, stage))


def choose_share(stage: Stage, found: Selection, start: Mapping[str, Tensor]) -> Selection:
    """Choose between the start and the trained weights on the rows that chose the epoch; of equals, nearer the start.

    Args:
        stage: done; its validation judges.
        found: what it chose.
        start: the state of the model before the stage.
    """
    shares, model = stage.spec.training.interpolate, stage.parts.model
    if stage.validate is None and len(shares) > 1:
        raise UserError(f"training.interpolate has {len(shares)} shares and no image validates; name one share")
    if stage.validate is None:
        return replace(found, share=shares[0])
    validate = stage.validate

    def judge() -> float:
        here = validate(stage.parts.trained) if is_first(stage.communicator) else None
        return as_first(here, stage.communicator)

    load_chosen(model, stage.folder, stage.name)
    best, values = best_share(model, start, shares, judge)
    for share, value in values.items():
        stage.folder.log({"stage": stage.name, "step": 0, "share": share, "recall@1": value})
    return replace(found, share=best, value=values[best])


def best_share(
    model: nn.Module, start: Mapping[str, Tensor], shares: Iterable[float], judge: Callable[[], float]
) -> tuple[float, dict[float, float]]:
    """The share with the best value (of equals the nearest to the start) and all values; the model is left there.

    Args:
        model: trained.
        start: its state before the training.
        shares: to try.
        judge: the value of the model as it is.
    """
    trained = {name: value.clone() for name, value in model.state_dict().items()}
    values: dict[float, float] = {}
    for share in sorted(shares):
        model.load_state_dict(trained)
        interpolate(model, start, share)
        values[share] = judge()
    best = max(values, key=lambda share: (values[share], -share))
    model.load_state_dict(trained)
    interpolate(model, start, best)
    return best, values


def build_task(stage: Stage) -> Task:
    """Model, loss, optimiser and the settings of a step."""
    t, spec, model, embedder = stage.spec.training, stage.spec, stage.parts.trained, stage.parts.model
    # without labels a class is an image, named by its row
    classes = stage.source.manifest.classes(stage.rows) if t.labelled else dict.fromkeys(stage.rows.tolist(), "")
    objective = build_objective(spec, classes, embedder.dim).to(stage.device)
    if stage.divide and stage.communicator is not None:
        divide_classes(base_loss(objective), stage.communicator)
    multiplier = base_loss(objective).lr_multiplier if t.loss_multiplier is None else t.loss_multiplier
    rates = Rates(t.optimiser, t.lr, t.head_multiplier, multiplier, t.weight_decay, t.eps, t.momentum, t.layer_decay)
    if spec.model.trains == "head":
        embedder.backbone.requires_grad_(False)
    layers = embedder.backbone.layers() if rates.layer_decay != 1.0 and spec.model.trains == "all" else ()
    groups = parameter_groups(model, embedder.head_parameters, objective, rates, layers)
    optimiser = build_optimiser(groups, rates)
    if t.compile:
        compile_parts(model, objective, stage.communicator)
    steps = steps_of(stage)
    return Task(
        model=model,
        loss=objective,
        optimiser=optimiser,
        schedule=Schedule(t.schedule, t.ramp_steps, t.every_epochs, t.gamma),
        steps_per_epoch=steps,
        total_steps=steps * t.epochs,  # of the schedule: a refit stops early in it, as the chosen epoch did
        seed=spec.seed,
        clip_value=t.clip_value,
        clip_norm=t.clip_norm,
        precision=t.precision,
        scaler=torch.amp.GradScaler(torch.device(stage.device).type) if t.precision == "fp16" else None,
        chunk=t.chunk,
        frozen_epochs=t.frozen_epochs,
        freeze=embedder.freeze_backbone if t.frozen_epochs and spec.model.trains == "all" else None,
        average=None if t.average_decay is None else MovingAverage(model, t.average_decay),
        communicator=stage.communicator,
    )


def compile_parts(model: nn.Module, objective: nn.Module, communicator: Communicator | None) -> None:
    """Compile network and loss in place, which leaves the names in their state as they are.

    Draws are those of the eager network, so that the two passes of a gradient cache draw the same. A miner, a memory
    and a loss over several ranks stay as they are: they depend on values, on other steps and on other processes.
    """
    model.compile(options={"fallback_random": True})
    if communicator is None and isinstance(objective, Loss) and objective.miner is None:
        objective.compile()


def steps_of(stage: Stage) -> int:
    """Batches of an epoch; those of mined tuples are counted before anything is mined."""
    if resolve_sampler(stage.spec) == "mined":
        return mined_batches(len(stage.rows), stage.spec.training.batch_size)
    return len(epoch_batches(stage.spec, stage.source, stage.rows, 0))


def batches_of(stage: Stage, task: Task) -> Callable[[int, int], Iterator[Batch]]:
    """(epoch, first batch) -> batches, a pure function of spec, data and the task's mined table."""

    def batches(epoch: int, start: int) -> Iterator[Batch]:
        table = Mined(**task.tables) if task.tables else None
        rows = epoch_batches(stage.spec, stage.source, stage.rows, epoch, table)
        if stage.communicator is not None:
            rows = shard_batches(rows, stage.communicator.rank, stage.communicator.world)
        t = stage.spec.training
        return stage.parts.loader.train(
            rows,
            policy=t.policy,
            seed=stage.spec.seed,
            epoch=epoch,
            start=start,
            views=t.views,
            labelled=t.labelled,
            size=t.pixels_at(epoch),
        )

    return batches
