"""What a run shows while it works: loss, what was mined, images per second, validation, time left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from similis.cli.screen import console
from similis.run.cost import format_duration
from similis.run.machine import Watch

if TYPE_CHECKING:
    from similis.training.loop import StepReport

TITLES = {"select": "training", "refit": "training on all training classes"}
SMOOTH = 0.9  # of the loss on the screen


class Display(Watch):
    """A line that moves on a terminal; in a pipe, one line for each epoch."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self.screen = console(to_stderr=to_stderr)
        self._bar: Any = None
        self._task: Any = None
        self._begun, self._loss, self._recall, self._title = 0.0, 0.0, "", ""
        self._steps, self._epochs, self._done, self._images = 0, 0, 0, 0

    def __enter__(self) -> Display:
        if self.screen.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(bar_width=12), TextColumn("{task.completed}/{task.total}"),
                TextColumn("{task.fields[words]}"), TimeRemainingColumn(compact=True), console=self.screen,
            )  # fmt: skip
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def on_stage_start(self, stage: str, epochs: int, steps: int, done: int) -> None:
        """Show a new bar for the stage; steps made before an interruption are behind it already."""
        self._begun, self._images, self._recall = time.perf_counter(), 0, ""
        self._steps, self._epochs, self._done = steps, epochs, done
        title = TITLES.get(stage, stage)
        if self._bar is None:
            again = f", continued after step {done}" if done else ""
            self.screen.print(f"{title}: {epochs} epochs, {steps} steps{again}", markup=False)
            return
        if title != self._title:  # the same title again: lost workers have begun again
            self._task = self._bar.add_task(title, total=steps, completed=done, words="")
        self._bar.update(self._task, completed=done)
        self._title = title

    def on_step(self, report: StepReport, mined: Mapping[str, int]) -> None:
        """Show loss, mined counts and speed after a step."""
        self._loss = SMOOTH * self._loss + (1 - SMOOTH) * float(report.loss) if self._images else float(report.loss)
        self._images += report.images
        step, spent = report.progress.step, max(time.perf_counter() - self._begun, 1e-9)
        found = "".join(f"  {name} {count}" for name, count in mined.items())
        words = f"loss {self._loss:.4f}{found}  {self._images / spent:.0f} images/s{self._recall}"
        if self._bar is not None:
            self._bar.update(self._task, completed=step, words=words)
        elif self._epochs and step % max(1, self._steps // self._epochs) == 0:
            left = format_duration(spent / max(1, step - self._done) * (self._steps - step))
            self.screen.print(f"step {step}/{self._steps}  {words}  {left} left", markup=False)

    def on_validation(self, epoch: int, value: float, best: float) -> None:
        """Recall of the classes that choose."""
        self._recall = f"  R@1 {100 * value:.2f} (best {100 * best:.2f})"
        if self._bar is None:
            self.screen.print(f"epoch {epoch}: R@1 {100 * value:.2f} %, best {100 * best:.2f} %", markup=False)

    def on_phase(self, words: str, images: int = 0) -> None:
        """A bar at once; in a pipe, a line."""
        if self._bar is None:
            self.screen.print(f"{words}: {images:,} images", markup=False)
            return
        self._title = words
        self._task = self._bar.add_task(words, total=images, words="images")

    def on_images(self, count: int) -> None:
        """Move the bar of the phase."""
        if self._bar is not None:
            self._bar.advance(self._task, count)
