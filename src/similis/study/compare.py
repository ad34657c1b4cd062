"""Is one loss better than another? Repetitions are added until a verdict, or until the time is up."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from similis.engine.executor import Executor
from similis.study.plan.plan_file import parse_plan
from similis.study.plan.schema import Plan
from similis.study.report.judged_table import find_failed, floor_recall
from similis.study.report.page import fair_tables
from similis.study.statistics.looks import LOOKS, look_verdicts
from similis.study.statistics.variance_components import LEAST_REPETITIONS
from similis.study.statistics.verdicts import PairVerdict
from similis.study.tournament import run_tournament
from similis.study.tournament_folder import TournamentFolder
from similis.training.files import replace_file
from similis.values import UserError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """What is known after the newest look.

    Attributes:
        folder: of the tournament behind it.
        looks: repetitions at each look.
        most: repetitions that were planned before the first look.
        verdicts: for each look, those for these test classes and for unseen classes; no look without three repetitions.
        repetitions: that are done.
        seconds: of one repetition, the mean without the first.
        failed: contestant that did not train -> the floor that it does not clear.
    """

    folder: TournamentFolder
    looks: tuple[int, ...]
    most: int
    verdicts: tuple[tuple[PairVerdict, ...], ...]
    repetitions: int
    seconds: float
    failed: Mapping[str, str]

    @property
    def decided(self) -> bool:
        """Whether both trained and there is a verdict for unseen classes other than undecided."""
        return bool(self.verdicts) and not self.failed and self.verdicts[-1][-1].verdict != "undecided"

    @property
    def sentence(self) -> str:
        """The verdict for unseen classes, or why there is none."""
        if self.failed:
            which = "; ".join(f"{name} does not clear the floor, {floor}" for name, floor in self.failed.items())
            remedy = "train longer, in more dimensions (model.dim), validate on more classes, or take other data"
            return f"No verdict: {which}. What lies below a floor shows nothing about losses: {remedy}."
        if self.verdicts:
            return self.verdicts[-1][-1].sentence
        need = LEAST_REPETITIONS * self.seconds / 3600
        return (
            f"No verdict: {self.repetitions} repetition(s) are done and the fewest that say anything are "
            f"{LEAST_REPETITIONS}, about {need:.1g} hours in all; give more hours, or fewer trials or epochs."
        )


def compare_losses(
    plan: Plan | Mapping[str, Any],
    path: Path,
    *,
    hours: float | None = None,
    data_root: str | None = None,
    device: str = "auto",
    runs: Path | None = None,
    executor: Executor | None = None,
    on_look: Callable[[Comparison], None] | None = None,
) -> Comparison:
    """Run two contestants, repetition by repetition, and stop at the first look that decides.

    How many repetitions there will be at most is settled after the second one, by their times alone, before anybody has
    looked at a result; the looks up to that number share one error rate. When the time is up, a last look spends what
    is left of it and closes the comparison. A second call goes on, or shows the same.

    Args:
        plan: of two contestants, the baseline named by ``against``.
        path: folder of the tournament behind it.
        hours: that may be spent; None for as many as the last planned look needs.
        data_root: folder of the known data sets; None for SIMILIS_DATA.
        device: that computes each run.
        runs: folder of the runs, which comparisons may share.
        executor: where to run; one process here if not given.
        on_look: called after every look.
    """
    plan = plan if isinstance(plan, Plan) else parse_plan(plan)
    if plan.against is None or len(plan.contestants) != 2:
        raise UserError(
            f"{len(plan.contestants)} contestants given; a comparison has one and a baseline, named against"
        )
    diary = Diary(path / "looks.json")
    begun_before = TournamentFolder(path).plan().repetitions if (path / "plan.yaml").exists() else 1
    wanted = max(diary.repetitions, begun_before)
    while True:
        begun = time.monotonic()
        grown = plan.model_copy(update={"repetitions": wanted})
        folder = run_tournament(grown, path, data_root=data_root, device=device, runs=runs, executor=executor)
        diary.note(grown.repetitions, time.monotonic() - begun)
        late = hours is not None and diary.spent() + diary.seconds() > 3600 * hours
        if diary.most is None and (late or diary.repetitions > 1):
            diary.settle(hours)
        looked = diary.look(wanted, late=late)
        over = late or diary.closed or (diary.most is not None and wanted >= diary.most)
        if wanted in diary.looks or over:  # nothing new can be said between two looks
            found = judge_looks(grown, folder, diary)
            if looked and on_look is not None:
                on_look(found)
            if found.decided or over:
                return found
        wanted += 1


class Diary:
    """Seconds of the repetitions that are done, the looks, and what is planned: a file for later calls."""

    def __init__(self, path: Path) -> None:
        self.path = path
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.times: list[float] = kept.get("seconds", [])
        self.most: int | None = kept.get("most")
        self.looks: list[int] = kept.get("looks", [])
        self.closed: bool = kept.get("closed", False)
        self.begun = len(self.times)

    @property
    def repetitions(self) -> int:
        """How many are done."""
        return len(self.times)

    @property
    def planned(self) -> int:
        """How many there will be at most, once that is settled."""
        assert self.most is not None
        return self.most

    def seconds(self) -> float:
        """Of one repetition, the mean without the first, which also measures floors and fills caches."""
        later = self.times[1:] or self.times
        return sum(later) / len(later)

    def spent(self) -> float:
        """Seconds of this call."""
        return sum(self.times[self.begun :])

    def note(self, repetitions: int, seconds: float) -> None:
        """Note a repetition, unless it was done before."""
        if repetitions > len(self.times):
            self.times.append(round(seconds, 3))
            self.write()

    def settle(self, hours: float | None) -> None:
        """Plan the last look: the last of the usual ones that the time allows, before the first has been taken."""
        left = math.inf if hours is None else 3600 * hours - self.times[0]
        fits = 1 + left / max(self.seconds(), 1e-9)
        self.most = max([look for look in LOOKS if look <= fits], default=LOOKS[0])
        logger.info("one repetition takes %.0f s; at most %d are planned", self.seconds(), self.most)
        self.write()

    def look(self, repetitions: int, *, late: bool) -> bool:
        """Note a look if one is due: where it was planned, or the last one, because the time is up."""
        last = late and repetitions >= LEAST_REPETITIONS
        if self.closed or repetitions in self.looks or not (last or repetitions in LOOKS):
            return False
        self.looks.append(repetitions)
        self.closed = last
        self.write()
        return True

    def write(self) -> None:
        """Replace the file."""
        text = json.dumps({"seconds": self.times, "most": self.most, "looks": self.looks, "closed": self.closed})
        replace_file(self.path, lambda beside: Path(beside).write_text(text, encoding="utf-8"))


def judge_looks(plan: Plan, folder: TournamentFolder, diary: Diary) -> Comparison:
    """Verdicts at every look so far; the baseline is named second."""
    done, looks = plan.repetitions, tuple(diary.looks)
    (table,) = fair_tables(plan, folder.records.all("final"))
    names = [each.title for each in plan.contestants if each.title != plan.against] + [str(plan.against)]
    verdicts = tuple(
        tuple(
            look_verdicts(
                table.scores.select(names, look), looks[: n + 1], most=diary.planned, margin=plan.margin,
                last=diary.closed and look == looks[-1],
            )
        )
        for n, look in enumerate(looks)
    )  # fmt: skip
    failed = find_failed(table, floor_recall(table, folder.records.all("floor")))
    floors = {name: floor for name, (floor, _) in failed.items()}
    return Comparison(folder, looks, diary.planned, verdicts, done, diary.seconds(), floors)


def looked_verdicts(folder: TournamentFolder) -> tuple[PairVerdict, ...] | None:
    """Verdicts of the newest look of a comparison; None for a tournament, which is judged once."""
    diary = Diary(folder.path / "looks.json")
    return judge_looks(folder.plan(), folder, diary).verdicts[-1] if diary.looks else None
