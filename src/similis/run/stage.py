"""A training stage of a run: what it needs, and what validation chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from similis.run.machine import Watch
from similis.run.parts import Parts, Source
from similis.run.prepared import Prepared
from similis.run.spec import RunSpec
from similis.training.folder import RunFolder
from similis.values import Communicator


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
