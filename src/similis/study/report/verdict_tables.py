"""Tables of verdicts: the column, the matrix, every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from similis.study.report.judged_table import JudgedTable
from similis.study.report.tables import Table
from similis.study.statistics.significance import TARGETS, Verdict
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
         f"{v.low:+.2f} to {v.high:+.2f}", f"{v.p:.4f}", f"{v.equivalence:.4f}", f"{v.detectable:.2f}"]
        for v in verdicts
    ]  # fmt: skip
    columns = ["first", "second", "target", "verdict", "points", "standard error", "degrees of freedom",
               "simultaneous 95 % interval", "p (Holm)", "p of equivalence (Holm)",
               "detectable with 80 % power"]  # fmt: skip
    return Table(columns, rows)
