"""Learning-rate schedules as pure functions of the step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from similis.registry import unknown
from similis.values import UserError

ScheduleName = Literal["constant", "step", "cosine"]
SCHEDULES = ("constant", "step", "cosine")


@dataclass(frozen=True)
class Schedule:
    """How the rates of all groups go down together.

    Attributes:
        name: ``constant``, ``step`` (times ``gamma`` every ``every_epochs``) or ``cosine`` (to 0 at the end).
        ramp_steps: the first steps rise linearly from 0; a ramp of the rate, no frozen backbone.
        every_epochs: of ``step``.
        gamma: of ``step``.
    """

    name: ScheduleName = "constant"
    ramp_steps: int = 0
    every_epochs: int = 10
    gamma: float = 0.1

    def factor(self, step: int, steps_per_epoch: int, total_steps: int) -> float:
        """What the base rates are multiplied by at a step (counted from 0).

        Example:
            >>> Schedule("step", every_epochs=2, gamma=0.1).factor(50, steps_per_epoch=10, total_steps=100)
            0.010000000000000002
        """
        if self.name not in SCHEDULES:
            raise UserError(unknown("schedule", self.name, list(SCHEDULES)))
        ramp = min(1.0, (step + 1) / self.ramp_steps) if self.ramp_steps else 1.0
        if self.name == "step":
            return float(ramp * self.gamma ** (step // max(steps_per_epoch, 1) // self.every_epochs))
        if self.name == "cosine":
            return ramp * 0.5 * (1 + math.cos(math.pi * min(step / max(total_steps, 1), 1.0)))
        return ramp
