"""Tables of verdicts: the column, the matrix, every number, contestants that did not train, the variance split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from similis.study.report.judged_table import JudgedTable
from similis.study.report.tables import Table, format_percent, format_settings
from similis.study.statistics.fair_table import FairTable
from similis.study.statistics.significance import TARGETS, Verdict
from similis.study.statistics.variance_split import pool_splits, variance_split
from similis.study.statistics.verdicts import PairVerdict

SIGNS: Mapping[Verdict, str] = {"better": "+", "worse": "−", "equivalent": "=", "undecided": "?"}
REVERSED = str.maketrans("+−", "−+")


def verdict_column(judged: JudgedTable) -> tuple[str, dict[str, str]]:
    """A heading, and for each contestant its verdict against the baseline: unseen classes (these test classes)."""
    against = judged.plan.against
    if against is None or not judged.asked:
        return "", {}
    near, far = ({v.first: v.verdict for v in judged.asked if v.target == target} for target in TARGETS)
    return f"against {against}", {name: f"{far[name]} ({near[name]})" for name in near} | {against: "baseline"}


def verdict_matrix(judged: JudgedTable) -> Table:
    """Row against column: for unseen classes, and in brackets for these test classes."""
    signs: dict[tuple[str, str], list[str]] = {}
    for v in reversed(judged.asked):  # unseen classes first
        signs.setdefault((v.first, v.second), []).append(SIGNS[v.verdict])
        signs.setdefault((v.second, v.first), []).append(SIGNS[v.verdict].translate(REVERSED))
    names = judged.ranking
    cells = {pair: "{} ({})".format(*both) for pair, both in signs.items()}
    return Table(["", *names], [[a, *(cells.get((a, b), "") for b in names)] for a in names])


def pair_table(verdicts: Sequence[PairVerdict]) -> Table:
    """Every number behind the sentences."""
    rows = [
        [v.first, v.second, v.target, v.verdict, f"{v.difference:+.2f}", f"{v.error:.2f}", f"{v.freedom:.1f}",
         f"{v.low:+.2f} to {v.high:+.2f}", f"{v.p:.4f}", f"{v.equivalence:.4f}", f"{v.detectable:.2f}",
         f"{v.improvement:.2f}"]
        for v in verdicts
    ]  # fmt: skip
    columns = ["first", "second", "target", "verdict", "points", "standard error", "degrees of freedom",
               "simultaneous 95 % interval", "p (Holm)", "p of equivalence (Holm)", "detectable with 80 % power",
               "P(improvement)"]  # fmt: skip
    return Table(columns, rows)


def failed_table(judged: JudgedTable) -> Table:
    """Contestants that did not train: recall, the baseline that they do not beat, and their settings."""
    rows = []
    for name, (floor, found) in sorted(judged.failed.items(), key=lambda each: -each[1][1].difference):
        settings = [describe_run(run) for run in judged.whole.records[name]]
        mean = judged.whole.scores.means[judged.whole.names.index(name)]
        rows.append([name, format_percent(mean), floor, f"{found.difference:+.2f}", f"{found.low:+.2f}",
                     "; ".join(dict.fromkeys(settings))])  # fmt: skip
    columns = ["contestant", "R@1 %", "baseline", "points above it", "lower end of the 95 % interval",
               "settings"]  # fmt: skip
    return Table(columns, rows)


def describe_run(run: Mapping[str, Any]) -> str:
    """The preset of one run, its options, and the settings that its search chose."""
    objective = run["spec"]["objective"]
    own = {**objective["options"], **run["settings"]}
    short = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in own.items()}
    return ", ".join(filter(None, [f"preset {objective['preset'] or 'defaults'}", format_settings(short)]))


def variance_table(table: FairTable) -> Table:
    """Standard deviations in points of every contestant, with 95 % intervals, and their medians."""
    splits = variance_split(table.names, table.runs, table.scores.sizes)
    between = "tuning" if table.tuning_inside else "repetition"
    heads = {"run": "a run", "tuning": between, "seed": "seed", "classes": "test classes"}
    if table.runs.shape[3] == 1:
        heads = {key: heads[key] for key in ("run", "classes")}
    medians = pool_splits(splits)
    rows = [[split.name, *(str(getattr(split, key)) for key in heads)] for split in splits]
    rows.append(["median", *(f"{medians[key]:.2f} points" for key in heads)])
    return Table(["contestant", *heads.values()], rows)
