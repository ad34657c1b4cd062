"""What a stage keeps while it trains: metrics, checkpoints, the best weights, the mined table."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from similis.data.loader import Loader
from similis.retrieval.offline_mining import Mined, mine_offline
from similis.run.evaluation import evaluate_rows, on_device
from similis.run.parts import HeadOnly, base_loss
from similis.run.spec import RunSpec
from similis.run.stage import Stage
from similis.run.warm_start import PROXIES, write_proxies
from similis.training.checkpoint import save_checkpoint
from similis.training.loop import Progress, StepReport, Task
from similis.training.randomness import mixed_seed
from similis.training.rank_zero import is_first, share_first
from similis.training.tensors import save_model
from similis.values import Communicator, DivergedError

MINING = 7  # sets the draws of mining apart from those of other purposes
LOG_STEPS = 20  # steps on a device between two looks at their losses, each of which waits for it


class Recorder:
    """Writes metrics, checkpoints and the best weights while a stage trains."""

    def __init__(self, stage: Stage, task: Task, notes: dict[str, Any], *, sound: bool = False) -> None:
        self.stage = stage
        self.task = task
        self.notes = notes
        self.sound = sound  # the last checkpoint in the folder can be relied on
        self.waiting: list[tuple[StepReport, dict[str, int]]] = []  # steps whose loss was not read yet
        self.lost = 0  # steps in a row whose loss was not finite
        self.log_steps = 1 if stage.run.machine.chosen.type == "cpu" else LOG_STEPS

    def mine(self, progress: Progress) -> None:
        """Mine anew where an epoch begins, if it is due; the table goes into the checkpoints."""
        stage = self.stage
        if progress.epoch % stage.spec.training.mining.every_epochs:
            return
        begun = time.perf_counter()
        loader, others = stage.parts.loader, stage.communicator
        table = refresh_table(
            self.task.model, loader, stage.rows, stage.spec, epoch=progress.epoch, communicator=others
        )
        self.task.tables = table._asdict()
        seconds = time.perf_counter() - begun
        self.notes["mining_seconds"] += seconds
        useful = int(table.useful().sum())
        # Under the step that uses it first: a run that is continued before this step mines again.
        stage.folder.log(
            {"stage": stage.name, "step": progress.step + 1, "mined_anchors": useful, "mining_seconds": seconds}
        )

    def on_step(self, report: StepReport) -> None:
        """After a step: the line in the metrics, the display, now and then a checkpoint."""
        mined = base_loss(self.task.loss).mined
        self.waiting.append((report, {} if mined is None else mined._asdict()))
        due = report.progress.step % self.stage.spec.training.checkpoint_steps == 0
        if due or len(self.waiting) >= self.log_steps:
            self.log_waiting()
        if due:
            self.checkpoint(report.progress)

    def log_waiting(self) -> None:
        """Read the losses of the last steps, which waits for the device once, and hand them on."""
        if not self.waiting:
            return
        losses = torch.stack([report.loss for report, _ in self.waiting]).cpu()
        for (report, counts), loss in zip(self.waiting, losses, strict=True):
            record = {"stage": self.stage.name, "step": report.progress.step, "loss": loss.item(), **counts}
            self.stage.folder.log(record)
            self.check_finite(report.progress, record["loss"])
            self.stage.watch.on_step(replace(report, loss=loss), counts)
        self.waiting.clear()

    def check_finite(self, progress: Progress, loss: float) -> None:
        """Stop a training whose loss is no number, before a checkpoint keeps its weights.

        A gradient scaler skips the steps that overflow, so fp16 may lose some of them and recover.
        """
        self.lost = 0 if math.isfinite(loss) else self.lost + 1
        if self.lost == 0 or (self.task.scaler.is_enabled() and self.lost < LOG_STEPS):
            return
        training, place = self.stage.spec.training, f"step {progress.step} (epoch {progress.epoch + 1})"
        raise DivergedError(
            f"the loss of {self.stage.spec.objective.loss} is {loss} at {place} of stage {self.stage.name}, and no "
            f"training recovers from that; lower the learning rate, --set training.lr={training.lr / 10:g} instead of "
            f"{training.lr:g}, clip gradients, --set training.clip_norm=1, or look at the images of that batch"
        )

    def on_epoch_end(self, progress: Progress) -> bool:
        """After an epoch: validation, the best weights, a checkpoint; True when patience is over."""
        self.log_waiting()
        if self.stage.validate is not None:
            here = self.stage.validate(self.evaluated) if is_first(self.stage.communicator) else None
            self.note_validation(progress, share_first(here, self.stage.communicator))
        else:
            self.notes["best_epoch"] = progress.epoch
            self.keep_weights(progress.epoch)
        self.checkpoint(progress)
        return self.is_over(progress)

    def note_validation(self, progress: Progress, value: float) -> None:
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
        self.stage.watch.on_validation(progress.epoch, value, self.notes["best"])

    def is_over(self, progress: Progress) -> bool:
        """Whether validation has not improved for as long as the specification waits."""
        patience, history = self.stage.spec.training.patience, self.notes["history"]
        waited = len(history) - self.notes["best_epoch"] if history else 0
        return progress.epoch >= self.stage.epochs or (patience is not None and waited >= patience)

    def checkpoint(self, progress: Progress) -> None:
        """Write the position: all processes call it, the first one writes."""
        path, contents = self.stage.folder.checkpoint(self.stage.name), self.stage.contents
        save_checkpoint(path, self.task, progress, self.notes, contents=contents, keep=self.sound)
        self.sound = True

    @property
    def evaluated(self) -> nn.Module:
        """The module that is evaluated: the average where there is one."""
        return self.task.model if self.task.average is None else self.task.average.model

    def keep_weights(self, epoch: int) -> None:
        """Write the weights of the whole embedder as they are evaluated now."""
        if not is_first(self.stage.communicator):
            return
        inner = self.evaluated.embedder if isinstance(self.evaluated, HeadOnly) else self.evaluated
        folder, name = self.stage.folder, self.stage.name
        save_model(folder.best(name), inner, {"contents": folder.best_contents(name), "epoch": str(epoch)})
        classes = self.stage.source.manifest.classes(self.stage.rows)
        write_proxies(folder.path / PROXIES, base_loss(self.task.loss), classes)


def refresh_table(
    module: nn.Module,
    loader: Loader,
    rows: Tensor,
    spec: RunSpec,
    *,
    epoch: int,
    communicator: Communicator | None = None,
) -> Mined:
    """For each of the rows a positive and a list of negatives, as places in ``rows``.

    The rows are embedded in evaluation mode and in the order of the data set. The first process mines and the
    others receive its table, so that all of them make the same batches from it.

    Args:
        module: what is trained, with its weights of this moment.
        loader: of its inputs; no other pass may be open.
        rows: (N,) rising row numbers of the manifest.
        spec: kind and length of the lists.
        epoch: that begins; sets the draws of random positives.
        communicator: the other processes; None for one alone.
    """
    mining = spec.training.mining
    if is_first(communicator):
        found = on_device(evaluate_rows(module, loader, rows, spec), loader)
        kind = "semi_hard" if mining.kind == "semi_hard" else "hard"  # neighbours draw their positives epoch by epoch
        generator = torch.Generator().manual_seed(mixed_seed(spec.seed, MINING, epoch))
        table = mine_offline(found, mining.listed, kind=kind, generator=generator)
    else:
        table = Mined(rows.new_empty(len(rows)), rows.new_empty(len(rows), mining.listed))
    return table if communicator is None else Mined(*(communicator.broadcast(each) for each in table))
