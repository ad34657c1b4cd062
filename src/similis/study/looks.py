"""Interim analyses of a tournament of two while it gains repetitions: the file ``looks.json``."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

from similis.study.plan.schema import Plan
from similis.study.statistics.looks import LOOKS, look_verdicts
from similis.study.statistics.variance_components import LEAST_REPETITIONS, Scores
from similis.study.statistics.verdicts import PairVerdict
from similis.training.folder import RunFolder


@dataclass
class Looks:
    """When results were looked at, and what was planned before: later calls go on from here.

    Attributes:
        path: folder of the tournament.
        seconds: of each repetition that is done.
        most: repetitions that were planned before the first interim analysis.
        looks: repetitions at each interim analysis; none for a tournament that is judged once.
        closed: whether a final analysis, because the time was up, has used the rest of the error rate.
    """

    path: Path
    seconds: list[float] = field(default_factory=list)
    most: int | None = None
    looks: list[int] = field(default_factory=list)
    closed: bool = False

    @classmethod
    def of(cls, path: Path) -> Looks:
        """As the folder has them."""
        return cls(path, **(RunFolder(path).read("looks.json") or {}))

    @property
    def pace(self) -> float:
        """Mean seconds of a repetition; the first is left out if possible, because it also measures baselines."""
        later = self.seconds[1:] or self.seconds
        return sum(later) / len(later)

    def note(self, repetitions: int, seconds: float) -> None:
        """Note the time of a repetition, unless it was done before."""
        if repetitions > len(self.seconds):
            self.seconds.append(round(seconds, 3))
            self.write()

    def settle(self, hours: float | None) -> None:
        """Plan the last interim analysis: the last of ``LOOKS`` that the time allows."""
        left = math.inf if hours is None else 3600 * hours - self.seconds[0]
        fits = 1 + left / max(self.pace, 1e-9)
        self.most = max([look for look in LOOKS if look <= fits], default=LOOKS[0])
        self.write()

    def look(self, repetitions: int, *, late: bool) -> bool:
        """Record an interim analysis if one is due: a planned one, or the last one, because the time is up."""
        last = late and repetitions >= LEAST_REPETITIONS
        if self.closed or repetitions in self.looks or not (last or repetitions in LOOKS):
            return False
        self.looks.append(repetitions)
        self.closed = last
        self.write()
        return True

    def verdicts(self, plan: Plan, scores: Scores) -> list[PairVerdict]:
        """Verdicts of the newest interim analysis, these test classes first; the baseline is named second."""
        names = sorted(scores.names, key=lambda name: name == plan.against)
        at, most = tuple(self.looks), self.most or LOOKS[-1]
        return look_verdicts(scores.select(names, at[-1]), at, most=most, last=self.closed, margin=plan.margin)

    def write(self) -> None:
        """Replace the file."""
        RunFolder(self.path).write("looks.json", {key: v for key, v in asdict(self).items() if key != "path"})
