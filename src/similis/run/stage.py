"""A training stage of a run: what it needs, and what validation chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from similis.run.machine import Machine, Watch
from similis.run.parts import Parts, Source
from similis.run.spec import RunSpec
from similis.training.folder import RunFolder
from similis.values import Communicator

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
