"""What a run shows while it works: loss, what was mined, images per second, validation, time left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from similis.cli.screen import console
from similis.run.machine import Watch

if TYPE_CHECKING:
    from similis.training.loop import StepReport

TITLES = {"select": "training", "refit": "training on all training classes"}
SMOOTH = 0.9  # of the loss on the screen


class Display(Watch):
    """A line that moves on a terminal; in a pipe, one line for each epoch."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self.screen = console(to_stderr=to_stderr)
        self.alive = self.screen.is_terminal
        self._bar: Any = None
        self._task: Any = None
        self._begun = 0.0
        self._steps, self._epochs, self._done, self._images = 0, 0, 0, 0
        self._loss: float | None = None
        self._recall = ""
        self._title = ""

    def __enter__(self) -> Display:
        if self.alive:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.completed}/{task.total}"),
                TextColumn("{task.fields[words]}"), TextColumn("left"), TimeRemainingColumn(), console=self.screen,
            )  # fmt: skip
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def on_stage_start(self, stage: str, epochs: int, steps: int, done: int) -> None:
        """A new bar for the stage; steps made before an interruption are behind it already."""
        self._begun, self._images, self._loss, self._recall = time.perf_counter(), 0, None, ""
        self._steps, self._epochs, self._done = steps, epochs, done
        title = TITLES.get(stage, stage)
        if self._bar is not None:
            if title != self._title:  # the same title again: lost workers have begun again
                self._task = self._bar.add_task(title, total=steps, completed=done, words="")
            self._bar.update(self._task, completed=done)
            self._title = title
            return
        again = f", continued after step {done}" if done else ""
        self.screen.print(f"{title}: {epochs} epochs, {steps} steps{again}", markup=False)

    def on_step(self, report: StepReport, mined: Mapping[str, int]) -> None:
        """Loss, mined counts and speed after a step."""
        value = float(report.loss)
        self._loss = value if self._loss is None else SMOOTH * self._loss + (1 - SMOOTH) * value
        self._images += report.images
        step = report.progress.step
        if self._bar is not None:
            self._bar.update(self._task, completed=step, words=self.words(mined))
        elif self._epochs and step % max(1, self._steps // self._epochs) == 0:
            spent = time.perf_counter() - self._begun
            left = spent / max(1, step - self._done) * (self._steps - step)
            self.screen.print(f"step {step}/{self._steps}  {self.words(mined)}  {clock(left)} left", markup=False)

    def words(self, mined: Mapping[str, int]) -> str:
        """The figures of the moment."""
        speed = self._images / max(time.perf_counter() - self._begun, 1e-9)
        found = "".join(f"  {name} {count}" for name, count in mined.items())
        return f"loss {self._loss or 0.0:.4f}{found}  {speed:.0f} images/s{self._recall}"

    def on_validation(self, epoch: int, value: float, best: float) -> None:
        """Recall of the classes that choose."""
        self._recall = f"  R@1 {100 * value:.2f} (best {100 * best:.2f})"
        if self._bar is None:
            self.screen.print(f"epoch {epoch}: R@1 {100 * value:.2f} %, best {100 * best:.2f} %", markup=False)

    def on_phase(self, words: str) -> None:
        """A line at once, for what has no bar."""
        self.screen.print(words, markup=False)


def clock(seconds: float) -> str:
    """Minutes and seconds.

    Example:
        >>> clock(75.4)
        '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
