"""Tables of verdicts: letters, the matrix, every number, contestants that did not train, the variance split."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from string import ascii_lowercase
from typing import Any

from similis.study.report.judged_table import JudgedTable
from similis.study.report.tables import Table, format_percent, format_settings
from similis.study.statistics.fair_table import FairTable
from similis.study.statistics.significance import TARGETS, Verdict
from similis.study.statistics.variance_split import pool_splits, variance_split
from similis.study.statistics.verdicts import PairVerdict

SIGNS: Mapping[Verdict, str] = {"better": "+", "worse": "−", "equivalent": "=", "undecided": "?"}
REVERSED = str.maketrans("+−", "−+")


def compact_letters(names: Sequence[str], different: Collection[frozenset[str]]) -> dict[str, str]:
    """Letters such that two names share one if and only if they are not a different pair.

    Reference: Piepho: An algorithm for a letter-based representation of all-pairwise comparisons, 2004.

    Args:
        names: in the order in which letters are given out.
        different: pairs of names.

    Example:
        >>> compact_letters(["x", "y", "z"], [frozenset("xz")])
        {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    groups = [frozenset(names)]
    for pair in different:
        halves = [group - {each} for group in groups if pair <= group for each in pair]
        kept = list(dict.fromkeys([*(group for group in groups if not pair <= group), *halves]))
        groups = [group for group in kept if not any(group < other for other in kept)]
    groups.sort(key=lambda group: sorted(names.index(name) for name in group))
    signs = [f"{ascii_lowercase[n % 26]}{n // 26 or ''}" for n in range(len(groups))]
    return {name: "".join(s for s, group in zip(signs, groups, strict=True) if name in group) for name in names}


def verdict_column(judged: JudgedTable) -> tuple[str, dict[str, str]]:
    """A heading and a cell for each contestant: letters, or the verdict against the baseline.

    Cells are for unseen classes, and in brackets for these test classes.
    """
    if not judged.asked:
        return "", {}
    cells: list[dict[str, str]] = []
    for target in reversed(TARGETS):
        found = [v for v in judged.asked if v.target == target]
        if judged.against is None:
            different = [frozenset((v.first, v.second)) for v in found if v.verdict in ("better", "worse")]
            cells.append(compact_letters(judged.ranking, different))
        else:
            cells.append({v.first: v.verdict for v in found} | {judged.against: "baseline"})
    heading = "letters" if judged.against is None else f"against {judged.against}"
    joined = {name: f"{cells[0][name]} ({cells[1][name]})" for name in judged.ranking}
    return heading, joined | ({judged.against: "baseline"} if judged.against else {})


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
    """Contestants that did not train: recall, the floor that they do not clear, and their settings."""
    rows = []
    for name, (floor, found) in sorted(judged.failed.items(), key=lambda each: -each[1][1].difference):
        settings = [describe_run(run) for run in judged.whole.records[name]]
        mean = judged.whole.scores.means[judged.whole.names.index(name)]
        rows.append([name, format_percent(mean), floor, f"{found.difference:+.2f}", f"{found.low:+.2f}",
                     "; ".join(dict.fromkeys(settings))])  # fmt: skip
    columns = ["contestant", "R@1 %", "floor", "points above it", "lower end of the 95 % interval",
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
