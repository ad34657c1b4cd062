"""What the processes of a run say to the one display: events of the first one, warnings of all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from similis.run.machine import Watch
from similis.training.loop import Progress, StepReport

Event = tuple[str, tuple[Any, ...]]
SECONDS = 0.1  # between messages: steps may be quicker than a display


class RemoteWatch:
    """A watch in one process that forwards to another; steps are collected for a tenth of a second."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self.send = send
        self._events: list[Event] = []
        self._last = 0.0

    def on_stage_start(self, stage: str, epochs: int, steps: int, done: int) -> None:
        """Tell it."""
        self._add("on_stage_start", stage, epochs, steps, done, now=True)

    def on_step(self, report: StepReport, mined: Mapping[str, int]) -> None:
        """Tell it soon, with the loss as a plain number."""
        p = report.progress
        place = (p.epoch, p.batch, p.step, p.samples)
        self._add("on_step", place, float(report.loss), report.images, report.seconds, dict(mined))

    def on_validation(self, epoch: int, value: float, best: float) -> None:
        """Tell it."""
        self._add("on_validation", epoch, value, best, now=True)

    def on_phase(self, words: str) -> None:
        """Tell it."""
        self._add("on_phase", words, now=True)

    def on_end(self, result: Mapping[str, Any]) -> None:
        """Tell it."""
        self._add("on_end", dict(result), now=True)

    def _add(self, name: str, *values: Any, now: bool = False) -> None:
        self._events.append((name, values))
        if now or time.monotonic() - self._last > SECONDS:
            self.send(self._events)
            self._events, self._last = [], time.monotonic()


def forward_messages(watch: Watch, on_line: Callable[[str], None] | None) -> Callable[[int, Any], None]:
    """What to do with a rank and what its process sent: events go to the watch, lines to ``on_line``."""

    def on_message(rank: int, words: Any) -> None:
        if isinstance(words, str):
            if on_line is not None:
                on_line(words if rank < 0 else f"worker {rank}: {words}")
            return
        for name, values in words:
            if name == "on_step":
                place, loss, images, seconds, mined = values
                watch.on_step(StepReport(Progress(*place), torch.tensor(loss), images, seconds), mined)
            else:
                getattr(watch, name)(*values)

    return on_message


@contextmanager
def forward_warnings(send: Callable[[Any], None]) -> Iterator[None]:
    """Warnings and log lines of this process go to the display for a while, not to its own error stream."""
    handler = Lines(send)
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)


class Lines(logging.Handler):
    """Tells log lines from warnings upwards."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        super().__init__(logging.WARNING)
        self.send = send

    def emit(self, record: logging.LogRecord) -> None:
        """One line, without line ends of its own."""
        self.send(" ".join(record.getMessage().split()))
