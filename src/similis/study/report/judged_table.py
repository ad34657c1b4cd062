"""Judged tables of a tournament: baselines, contestants that did not train, verdicts about the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from similis.study.looks import Looks
from similis.study.plan.schema import Plan
from similis.study.statistics.fair_table import FairTable, check_classes, fair_table
from similis.study.statistics.floors import NotTrained, did_not_train
from similis.study.statistics.sensitivity import VerdictFlip, verdict_flips
from similis.study.statistics.variance_components import LEAST_REPETITIONS, Floats
from similis.study.statistics.verdicts import PairVerdict, pair_verdicts
from similis.study.tournament_folder import TournamentFolder
from similis.values import UserError

OTHER_IMAGES = "own resolution"  # this baseline sees more pixels than the contestants, so it is shown only


@dataclass(frozen=True, eq=False)
class JudgedTable:
    """Verdicts about the contestants of one table that trained.

    Attributes:
        plan: the question and the margin.
        whole: all contestants.
        trained: those that beat every baseline; they alone are ranked and judged.
        floors: baseline -> per-class recall (K, repetitions).
        failed: contestant that did not train -> the baseline that it misses most, and by how much.
        asked: verdicts about the pairs of the question, these test classes first.
        flips: verdicts of the question that change when a contestant is left out.
    """

    plan: Plan
    whole: FairTable
    trained: FairTable
    floors: Mapping[str, Floats]
    failed: Mapping[str, tuple[str, NotTrained]]
    asked: Sequence[PairVerdict]
    flips: Sequence[VerdictFlip]

    @property
    def ranking(self) -> list[str]:
        """Contestants that trained, the highest mean first."""
        return [self.trained.names[c] for c in self.trained.order()]

    @property
    def decided(self) -> bool:
        """Whether the last verdict, of a tournament of two that for unseen classes, is other than undecided."""
        return bool(self.asked) and self.asked[-1].verdict != "undecided"


def judge_folder(folder: TournamentFolder) -> list[JudgedTable]:
    """Judge every table of a tournament that has results, from its records."""
    plan, records = folder.plan(), folder.records.all("final")
    if not records:
        raise UserError(f"no final run is finished in {folder.path}; run the tournament first")
    folder.ledger.check(records)
    floors, looks = folder.records.all("floor"), folder.looks
    return [judge_table(plan, table, floors, looks) for table in fair_tables(plan, records)]


def fair_tables(plan: Plan, records: Sequence[dict[str, Any]]) -> list[FairTable]:
    """One table for each arena and length that has results, in the order of the plan."""
    places = [(arena.name, length) for arena in plan.arenas for length in plan.lengths]
    rows = [[record for record in records if (record["arena"], record["length"]) == place] for place in places]
    return [fair_table(found) for found in rows if found]


def judge_table(
    plan: Plan, table: FairTable, records: Sequence[Mapping[str, Any]], looks: Looks | None = None
) -> JudgedTable:
    """Judge one table.

    Args:
        plan: the question and the margin.
        table: the results.
        records: of the baselines of all arenas.
        looks: interim analyses that share one error rate; without any the table is judged once.
    """
    floors = floor_recall(table, records)
    failed = find_failed(table, floors)
    trained = table.keep([name for name in table.names if name not in failed])
    asked: Sequence[PairVerdict] = []
    if trained.scores.can_be_judged and plan.against in (None, *trained.names):
        if looks is not None and looks.looks:
            asked = looks.verdicts(plan, trained.scores)
        else:
            asked = pair_verdicts(trained.scores, against=plan.against, margin=plan.margin)
    flips = verdict_flips(trained.scores, against=plan.against, margin=plan.margin) if asked else []
    return JudgedTable(plan, table, trained, floors, failed, asked, flips)


def floor_recall(table: FairTable, records: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """Baseline -> per-class recall (K, repetitions); raises unless it is of the table's test classes."""
    columns: dict[str, list[Floats]] = {}
    for record in sorted(records, key=lambda each: int(each["repetition"])):
        if record["arena"] == table.arena:
            check_classes([*table.records[table.names[0]][:1], record])
            counts = record["per_class"]
            columns.setdefault(record["floor"], []).append(np.array(counts["hits"]) / np.array(counts["queries"]))
    return {name: np.stack(found, axis=1) for name, found in columns.items()}


def find_failed(table: FairTable, floors: Mapping[str, Floats]) -> dict[str, tuple[str, NotTrained]]:
    """Contestants that do not beat a baseline, each with the one that it misses most."""
    _, classes, repetitions = table.scores.values.shape
    found: dict[str, tuple[str, NotTrained]] = {}
    if classes < 2 or repetitions < LEAST_REPETITIONS:
        return found
    for floor, recall in floors.items():
        if OTHER_IMAGES in floor:
            continue
        for each in did_not_train(table.scores, recall if recall.shape[1] > 1 else recall[:, 0]):
            if each.name not in found or each.low < found[each.name][1].low:
                found[each.name] = floor, each
    return found
