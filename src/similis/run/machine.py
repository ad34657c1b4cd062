"""What a run may use of the machine; none of it changes a number, except by the rounding of another kind of device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from similis.engine.device import choose_device
from similis.training.loop import StepReport
from similis.values import Batch, Communicator


@dataclass(frozen=True)
class Machine:
    """Resources and places.

    Attributes:
        root: folder of all runs.
        device: that computes: ``auto`` (the machine's accelerator, or else its processor), ``cpu``, ``cuda``, ``mps``,
            ``xpu`` or any other that PyTorch knows. Only its kind can change a number, and is part of the address.
        workers: processes that load images; 0 loads them in this one.
        cache_bytes: memory for decoded images.
        data_root: folder of the known data sets; None for the environment variable SIMILIS_DATA.
        verify: hash every image again when the data are opened (see ``similis.data.content``).
        communicator: the ranks that share the run, each with its part of every batch; None for one process.
        shard_classes: each of these ranks owns a shard of the proxies and of their optimiser state.
    """

    root: Path = Path("runs")
    device: str = "auto"
    workers: int = 0
    cache_bytes: int = 2 * 2**30
    data_root: str | None = None
    verify: bool = False
    communicator: Communicator | None = None
    shard_classes: bool = False

    @cached_property
    def chosen(self) -> torch.device:
        """The device of this process; raises where the machine does not have it."""
        return choose_device(self.device) if self.communicator is None else self.communicator.device


class Watch:
    """Callbacks of a run for a display, a meter or a test: override those that you want."""

    def on_stage_start(self, stage: str, epochs: int, steps: int, done: int) -> None:
        """A stage begins (``select``, ``refit``) with so many steps, some of them done before a crash."""

    def on_step(self, report: StepReport, mined: Mapping[str, int]) -> None:
        """A step was made; what its miner found, if it has one."""

    def on_validation(self, epoch: int, value: float, best: float) -> None:
        """An epoch was validated."""

    def on_phase(self, words: str, images: int = 0) -> None:
        """Something else begins that takes a while, and goes over so many images."""

    def on_images(self, count: int) -> None:
        """So many images of the phase are done."""

    def follow(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches of a phase, each reported when the next one is asked for."""
        for batch in batches:
            yield batch
            self.on_images(len(batch.labels))
