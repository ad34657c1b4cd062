"""The training loop, one page: batches in, weights out; everything else enters as a callable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from similis.engine.collectives import replicate
from similis.objective.context import distributed
from similis.training.data_parallel import clip_global_norm
from similis.training.gradient_cache import cached_embeddings
from similis.training.optimisers import MovingAverage, Schedule, set_rates
from similis.training.randomness import use_seed
from similis.values import Batch, Communicator

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Progress:
    """Where a run stands: epochs finished, batches done in this one, steps and images in all."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    samples: int = 0


@dataclass
class Task:
    """What is trained, and how one step is done; ``tables`` are what else a continued run needs (mined lists)."""

    model: nn.Module
    loss: nn.Module
    optimiser: torch.optim.Optimizer
    schedule: Schedule
    steps_per_epoch: int
    total_steps: int
    seed: int
    clip_value: float | None = None
    clip_norm: float | None = None
    precision: str = "float32"  # or bf16, fp16, by autocast of the model
    scaler: torch.amp.GradScaler = field(default_factory=lambda: torch.amp.GradScaler(enabled=False))  # for fp16
    chunk: int | None = None
    frozen_epochs: int = 0
    freeze: Callable[[bool], None] | None = None
    average: MovingAverage | None = None
    communicator: Communicator | None = None
    tables: dict[str, Tensor] = field(default_factory=dict)

    @cached_property
    def network(self) -> nn.Module:
        """The model as ranks share it: a backward pass leaves the mean of their gradients."""
        return replicate(self.model, self.communicator)


@dataclass(frozen=True)
class StepReport:
    """What a step tells the display and the metrics file. The loss stays a tensor until asked for."""

    progress: Progress
    loss: Tensor
    images: int
    seconds: float


def train(
    task: Task,
    batches: Callable[[int, int], Iterable[Batch]],
    progress: Progress,
    *,
    after_step: Callable[[StepReport], None],
    after_epoch: Callable[[Progress], bool],
    epochs: int,
    before_epoch: Callable[[Progress], None] | None = None,
) -> Progress:
    """Train until the epochs are over or ``after_epoch`` says stop.

    Args:
        task: what to train.
        batches: (epoch, first batch) -> the batches from there on, in a fixed order.
        progress: where to begin; a fresh ``Progress()`` or a checkpoint's.
        after_step: called after each step (display, metrics, checkpoint).
        after_epoch: called after each epoch (validation, checkpoint); True ends the training.
        epochs: number of epochs in all.
        before_epoch: called where an epoch begins, and not where one goes on (mining).
    """
    _ = task.network  # ranks share also what is frozen at first
    while progress.epoch < epochs:
        if before_epoch is not None and progress.batch == 0:
            before_epoch(progress)
        if task.freeze is not None:  # head and proxies warm up alone
            task.freeze(progress.epoch < task.frozen_epochs)
        for batch in batches(progress.epoch, progress.batch):
            begun = time.perf_counter()
            value = train_step(task, batch, progress.step)
            size = len(batch.labels)
            if task.communicator is not None:
                size = int(task.communicator.sum(torch.tensor(size)))
            progress = replace(
                progress, batch=progress.batch + 1, step=progress.step + 1, samples=progress.samples + size
            )
            after_step(StepReport(progress, value, size, time.perf_counter() - begun))
        progress = replace(progress, epoch=progress.epoch + 1, batch=0)
        if after_epoch(progress):
            break
    return progress


def train_step(task: Task, batch: Batch, step: int) -> Tensor:
    """One step of the optimiser; the loss of the batch, detached."""
    task.model.train()
    task.loss.train()
    set_rates(task.optimiser, task.schedule.factor(step, task.steps_per_epoch, task.total_steps))
    task.optimiser.zero_grad(set_to_none=True)

    def embed(images: Tensor) -> Tensor:
        with torch.autocast(images.device.type, dtype=AUTOCAST.get(task.precision), enabled=task.precision in AUTOCAST):
            embeddings: Tensor = task.network(images)
        return embeddings

    def value_of(embeddings: Tensor) -> Tensor:
        with distributed(task.communicator):
            found: Tensor = task.loss(embeddings, batch.labels, image_ids=batch.ids)
        return found

    if task.chunk is not None and task.chunk < len(batch.labels):
        seeds = task.seed, step
        value = value_of(cached_embeddings(embed, batch.images, chunk=task.chunk, seeds=seeds, network=task.network))
    else:
        with use_seed(task.seed, step, 0, device=batch.images.device):
            value = value_of(embed(batch.images))
    torch.autograd.backward(task.scaler.scale(value))
    task.scaler.unscale_(task.optimiser)  # bounds are those of gradients
    clip(task)
    task.scaler.step(task.optimiser)
    task.scaler.update()
    if task.average is not None:
        task.average.update(task.model)
    return value.detach()


def clip(task: Task) -> None:
    """Clip gradients by value and by norm, as the task says."""
    parameters = [p for group in task.optimiser.param_groups for p in group["params"] if p.grad is not None]
    if task.clip_value is not None:
        nn.utils.clip_grad_value_(parameters, task.clip_value)
    if task.clip_norm is not None:
        clip_global_norm(parameters, task.loss, task.clip_norm)
