"""The numbers of a report as plain values, for scripts and for pages that quote them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from similis.study.report.judged_table import JudgedTable
from similis.study.report.tables import table_ranks
from similis.study.statistics.fair_table import FairTable, own_intervals
from similis.study.statistics.variance_components import Scores

DIGITS = 6
OF_VERDICT = ("first", "second", "target", "verdict", "p", "difference", "low", "high", "detectable")


def report_record(judged: Sequence[JudgedTable]) -> str:
    """All tables of a report in JSON: recall with its intervals, baselines, verdicts, sums of ranks.

    Recall and intervals are shares, differences and standard deviations are points.
    """
    tables = {each.whole.title: table_figures(each) for each in judged}
    figures: dict[str, Any] = {"tables": tables, "ranks": rank_figures([each.whole for each in judged])}
    return json.dumps({"figures": round_values(figures)}, indent=1, allow_nan=False) + "\n"


def table_figures(judged: JudgedTable) -> dict[str, Any]:
    """One table: contestants, baselines and verdicts."""
    return {
        "repetitions": len(judged.whole.repetitions),
        "test classes": len(judged.whole.labels),
        "contestants": recall_figures(judged.whole.scores),
        "floors": {
            name: recall_figures(Scores((name,), recall[None], judged.whole.scores.sizes))[name]
            for name, recall in judged.floors.items()
        },
        "below a baseline": {name: {"floor": floor, "low": each.low} for name, (floor, each) in judged.below.items()},
        "paired": judged.whole.scores.paired,
        "ranking": judged.ranking,
        "verdicts": [{key: getattr(verdict, key) for key in OF_VERDICT} for verdict in judged.asked],
    }


def recall_figures(scores: Scores) -> dict[str, Any]:
    """Contestant -> mean recall, both half widths, and the recall of every repetition."""
    near, far = own_intervals(scores)
    return {
        name: {
            "mean": float(scores.means[c]),
            "these classes": float(near[c]),
            "unseen classes": float(far[c]),
            "repetitions": [float(each) for each in scores.per_repetition[c]],
        }
        for c, name in enumerate(scores.names)
    }


def rank_figures(tables: Sequence[FairTable]) -> dict[str, Any]:
    """Contestant -> sum, mean and standard deviation of its ranks over the tables, by the rule of the thesis."""
    lines = table_ranks(tables)
    return {line.name: {"sum": line.total, "mean": line.mean, "deviation": line.deviation} for line in lines}


def round_values(value: Any) -> Any:
    """Numbers with as many digits as every machine agrees on; what is no number becomes null."""
    return json.loads(json.dumps(value), parse_float=lambda it: round(float(it), DIGITS), parse_constant=lambda _: None)
