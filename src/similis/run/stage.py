"""A training stage of a run: what it needs, what the training loop takes for it, and what validation chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from similis.data.samplers.mined import mined_batches
from similis.data.sampling import shard_batches
from similis.objective.loss import Loss
from similis.objective.sharding import shard
from similis.retrieval.offline_mining import Mined
from similis.run.machine import Watch
from similis.run.parts import Parts, Source, base_loss, build_objective, epoch_batches
from similis.run.prepared import Prepared
from similis.run.spec import RunSpec
from similis.run.warm_start import start_folder, start_proxies
from similis.training.folder import RunFolder
from similis.training.loop import Task
from similis.training.optimisers import MovingAverage, Rates, Schedule, build_optimiser, parameter_groups
from similis.values import Batch, Communicator


@dataclass
class Stage:
    """What a stage needs: its name, the model, rows to train on, how long, how to validate."""

    name: str
    run: Prepared
    parts: Parts
    rows: Tensor
    epochs: int
    folder: RunFolder
    watch: Watch
    validate: Callable[[nn.Module], float] | None = None

    @property
    def spec(self) -> RunSpec:
        """The specification of the run."""
        return self.run.spec

    @property
    def source(self) -> Source:
        """The data of the run."""
        return self.run.source

    @property
    def communicator(self) -> Communicator | None:
        """The ranks that share the run."""
        return self.run.machine.communicator

    @property
    def contents(self) -> str:
        """What its checkpoints say they hold, so that those of another run or stage are not mistaken for them."""
        return f"{self.folder.address}/{self.name}"


@dataclass(frozen=True)
class Selection:
    """The epoch that validation chose (the last one without validation), its value, all values, time of mining.

    ``share`` is how much of the training the model keeps, see ``training.interpolate``; ``shrinkage`` is that of a head
    in closed form.
    """

    epoch: int
    value: float | None
    history: tuple[float, ...]
    mining_seconds: float = 0.0
    share: float = 1.0
    shrinkage: float | None = None


def build_task(stage: Stage) -> Task:
    """Model, loss, optimiser and the settings of a step."""
    t, spec, model, embedder = stage.spec.training, stage.spec, stage.parts.trained, stage.parts.model
    # without labels a class is an image, named by its row
    classes = stage.source.manifest.classes(stage.rows) if t.labelled else dict.fromkeys(stage.rows.tolist(), "")
    objective = build_objective(spec, classes, embedder.dim).to(stage.run.machine.chosen)
    start = start_folder(spec.model.weights)
    if start is not None:
        start_proxies(base_loss(objective), classes, start)
    if stage.run.machine.shard_classes and stage.communicator is not None:
        shard(base_loss(objective), stage.communicator)
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
        scaler=torch.amp.GradScaler(stage.run.machine.chosen.type, enabled=t.precision == "fp16"),
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
    if stage.spec.sampler == "mined":
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
