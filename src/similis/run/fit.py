"""Fit a stage: train on its rows, validate after each epoch, continue after a crash."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from similis.networks.embedder import Embedder
from similis.run.recorder import Recorder
from similis.run.stage import Selection, Stage, batches_of, build_task
from similis.training.checkpoint import Checkpoint, last_checkpoint, restore
from similis.training.files import DamagedError
from similis.training.folder import RunFolder
from similis.training.gradient_cache import check_batch_norm
from similis.training.loop import Progress, train
from similis.training.optimisers import interpolate
from similis.training.rank_zero import is_first, share_first, wait_for_all
from similis.training.tensors import load_model, read_tensors
from similis.values import UserError

logger = logging.getLogger(__name__)


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
    recorder = Recorder(stage, task, notes, sound=kept is not None and kept.path == last)
    if not recorder.is_over(progress):
        train(
            task,
            batches_of(stage, task),
            progress,
            before_epoch=recorder.mine if stage.spec.sampler == "mined" else None,
            after_step=recorder.on_step,
            after_epoch=recorder.on_epoch_end,
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
        _, described = read_tensors(stage.folder.best(stage.name), stage.folder.best_contents(stage.name))
    except DamagedError as error:
        logger.warning("%s begins again, because its best weights are lost: %s", stage.name, error)
        return None
    epoch = int(described["epoch"])
    # weights of a later epoch than the checkpoint's will be made again before anything asks for them
    return kept if epoch == kept.notes["best_epoch"] or epoch > kept.progress.epoch else None


def load_chosen(model: Embedder, folder: RunFolder, stage: str) -> None:
    """Put the weights that a stage chose into the model."""
    load_model(model, folder.best(stage), folder.best_contents(stage))


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
        return share_first(here, stage.communicator)

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
