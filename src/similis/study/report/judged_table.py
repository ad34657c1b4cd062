"""Judged tables of a tournament: baselines, contestants that are not above one, verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from similis.study.looks import Looks
from similis.study.plan.schema import Plan
from similis.study.statistics.baselines import BelowBaseline, below_baseline
from similis.study.statistics.fair_table import FairTable, check_classes, fair_table
from similis.study.statistics.variance_components import LEAST_REPETITIONS, Floats
from similis.study.statistics.verdicts import PairVerdict, pair_verdicts
from similis.study.tournament_folder import TournamentFolder
from similis.values import UserError

SAME_NETWORK = "untouched network"  # the baseline that has the contestants' size where they have no head


@dataclass(frozen=True, eq=False)
class JudgedTable:
    """One table with its verdicts.

    Attributes:
        plan: the question and the margin.
        whole: all contestants.
        floors: baseline -> per-class recall (K, repetitions).
        below: contestant that is not above a baseline of its size -> the one that it misses most, with the
            lower end of the interval.
        asked: verdicts about the pairs of the question, these test classes first; none before the table is complete.
        reason: why there are no verdicts; empty where there are.
    """

    plan: Plan
    whole: FairTable
    floors: Mapping[str, Floats]
    below: Mapping[str, tuple[str, BelowBaseline]]
    asked: Sequence[PairVerdict]
    reason: str

    @property
    def ranking(self) -> list[str]:
        """Contestants, the highest mean first."""
        return [self.whole.names[c] for c in self.whole.order()]

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
    here = [record for record in records if record["arena"] == table.arena]
    floors, sizes = floor_recall(table, here), {record["floor"]: record.get("dim") for record in here}
    size = table.terms.get("model.dim") or sizes.get(SAME_NETWORK)
    below = find_below(table, {name: recall for name, recall in floors.items() if size and sizes[name] == size})
    asked: Sequence[PairVerdict] = []
    reason = explain_no_verdicts(plan, table, looks)
    if not reason:
        if looks is not None and looks.looks:
            asked = looks.verdicts(plan, table.scores)
        else:
            asked = pair_verdicts(table.scores, against=plan.against, margin=plan.margin)
    return JudgedTable(plan, table, floors, below, asked, reason)


def explain_no_verdicts(plan: Plan, table: FairTable, looks: Looks | None = None) -> str:
    """Why a table has no verdicts; empty if it has."""
    contestants, classes, repetitions = table.scores.values.shape
    wanted = looks.looks[-1] if looks is not None and looks.looks else plan.repetitions
    missing = [each.title for each in plan.members(plan.arena(table.arena)) if each.title not in table.names]
    waits = looks is not None and bool(looks.seconds) and not looks.looks
    reasons = {
        "these results are older than the rule of judgement; run the plan in a new folder": not table.follows_rule,
        f"the baseline {plan.against} is not in this table": plan.against not in (None, *table.names),
        f"{', '.join(missing)} has no finished run yet": bool(missing),
        f"{repetitions} repetition(s) are done, and no interim analysis was due yet": waits,
        f"{repetitions} of {wanted} repetitions are done, and a tournament is judged once, at the number that its plan "
        "declares": repetitions < wanted,
        f"{repetitions} repetition(s) are done, of {contestants} contestant(s) on {classes} test classes; the fewest "
        f"that say anything are {LEAST_REPETITIONS}, of two on two: declare more in a new plan, or give compare more "
        "hours": not table.scores.can_be_judged,
    }
    return next((f"No verdict: {words}." for words, holds in reasons.items() if holds), "")


def floor_recall(table: FairTable, records: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """Baseline -> per-class recall (K, repetitions); raises unless it is of the table's test classes."""
    columns: dict[str, list[Floats]] = {}
    for record in sorted(records, key=lambda each: int(each["repetition"])):
        check_classes([*table.records[table.names[0]][:1], record])
        counts = record["per_class"]
        columns.setdefault(record["floor"], []).append(np.array(counts["hits"]) / np.array(counts["queries"]))
    return {name: np.stack(found, axis=1) for name, found in columns.items()}


def find_below(table: FairTable, floors: Mapping[str, Floats]) -> dict[str, tuple[str, BelowBaseline]]:
    """Contestants that are not above a baseline of their size, each with the one that it misses most."""
    found: dict[str, tuple[str, BelowBaseline]] = {}
    if len(table.repetitions) < LEAST_REPETITIONS:
        return found
    for floor, recall in floors.items():
        for each in below_baseline(table.scores, recall if recall.shape[1] > 1 else recall[:, 0]):
            if each.name not in found or each.low < found[each.name][1].low:
                found[each.name] = floor, each
    return found
