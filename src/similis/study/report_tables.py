"""The tables of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from similis.study.page import Block, Fold, Table, Text
from similis.study.ranks import RankSum, interquartile_mean, rank_sums
from similis.study.records import epoch_samples
from similis.study.sentences import PairVerdict
from similis.study.table import FairTable, own_intervals


def result_table(table: FairTable, searches: Mapping[str, Any]) -> list[Block]:
    """Mean recall with both intervals, other metrics, and the settings that the search chose."""
    judged = len(table.seeds) > 1 and len(table.labels) > 1
    near, far = own_intervals(table.scores) if judged else (np.full(len(table.names), np.nan),) * 2
    shown = [key for key in ("recall@2", "recall@4", "recall@8", "map@r") if key in first(table)["test"]]
    rows = []
    for c in table.order():
        name = table.names[c]
        runs = table.records[name]
        others = [f"{100 * np.mean([r['test'][key] for r in runs]):.2f}" for key in shown]
        settings = searches.get(name, {}).get("settings") or {}
        chosen = (
            ", ".join(f"{key} {value:.4g}" for key, value in settings.items())
            or f"preset {runs[0]['spec']['objective']['preset']}"
        )
        middle = interquartile_mean(table.scores.per_seed[c])
        numbers = [f"{100 * value:.2f}" for value in (table.scores.means[c], near[c], far[c], middle)]
        rows.append([name, *numbers, *others, chosen])
    measured = ["R@1 %", "± these classes", "± new classes", "interquartile mean, R@1 %", *map(metric_title, shown)]
    columns = ["contestant", *measured, "settings"]
    note = (
        f"Means over {len(table.seeds)} seeds and {int(table.scores.sizes.sum()):,} queries of {len(table.labels)} "
        "classes; ± is half of each contestant's own 95 % interval, the interquartile mean is over seeds. Classes are "
        "shared: contestants whose intervals overlap may still be told apart, so read the verdicts, not the overlap."
    )
    return [Table(columns, rows), Text(note)]


def metric_title(key: str) -> str:
    """A metric as a column title."""
    return "MAP@R %" if key == "map@r" else key.replace("recall", "R") + " %"


def first(table: FairTable) -> Mapping[str, Any]:
    """Any record of a table."""
    return table.records[table.names[0]][0]


def verdict_matrix(table: FairTable, verdicts: Sequence[PairVerdict]) -> list[Block]:
    """Row against column: on new classes, and in brackets on these classes."""
    said: dict[tuple[str, str, str], str] = {(v.first, v.second, v.target): v.verdict for v in verdicts}

    def word(a: str, b: str, target: str) -> str:
        if said.get((a, b, target)) == "better":
            return "better"
        return "worse" if said.get((b, a, target)) == "better" else "–"

    names = [table.names[c] for c in table.order()]
    rows = [
        [a, *("" if a == b else f"{word(a, b, 'new classes')} ({word(a, b, 'these classes')})" for b in names)]
        for a in names
    ]
    note = "Row against column on new classes; in brackets on these test classes only. A dash: not told apart."
    grid = Table(["", *names], rows)
    return [Text(note), grid if len(names) <= 8 else Fold(f"all {len(names)} against all", [grid])]


def pair_table(verdicts: Sequence[PairVerdict]) -> Block:
    """Every number behind the sentences."""
    rows = [
        [v.first, v.second, v.target, v.verdict, f"{v.difference:+.2f}", f"{v.error:.2f}", f"{v.freedom:.1f}",
         f"{v.low:+.2f} to {v.high:+.2f}", f"{v.p:.4f}", f"{v.detectable:.2f}", f"{v.improvement:.2f}"]
        for v in verdicts
    ]  # fmt: skip
    columns = ["first", "second", "target", "first is", "points", "standard error", "degrees of freedom",
               "simultaneous 95 %", "p (Holm)", "found with 80 % power", "P(improvement)"]  # fmt: skip
    note = (
        "Intervals are Bonferroni's, p is Holm's, which rejects a little more. P(improvement): share of pairs of seeds "
        "in which the first is ahead. Test classes share one gallery, so they are not strictly independent; the "
        "variance of tuning and of the training set is in no figure."
    )
    return Fold("all numbers of the verdicts", [Text(note), Table(columns, rows)])


def rank_sum_table(tables: Sequence[FairTable]) -> list[Block]:
    """The thesis' rule: over tables that have the same contestants, or over the seeds of a single one."""
    whole = [t for t in tables if t.names == tables[0].names]
    if len(whole) > 1:
        experiments = [dict(zip(t.names, map(float, t.scores.means), strict=True)) for t in whole]
        over = f"{len(whole)} tables"
    else:
        only = tables[0]
        experiments = [
            dict(zip(only.names, map(float, only.scores.per_seed[:, j]), strict=True)) for j in range(len(only.seeds))
        ]
        over = f"{len(only.seeds)} seeds of one table"
    lines = rank_sums(experiments)
    note = f"Ranked by R@1 in each of {over}; the smallest sum wins. It knows no chance: no verdict follows from it."
    return [
        Text(note),
        Table(["contestant", "sum of ranks", "mean", "standard deviation"], list(map(rank_line, lines))),
    ]


def rank_line(line: RankSum) -> list[str]:
    """A line of the rank sums."""
    return [line.name, f"{line.total:g}", f"{line.mean:.2f}", f"{line.deviation:.2f}"]


def curve_table(table: FairTable) -> list[Block]:
    """How quickly and how stably each contestant learned."""
    rows = []
    for c in table.order():
        runs = [run for run in table.records[table.names[c]] if run["history"]]
        if runs:
            numbers = np.mean([learned(run) for run in runs], axis=0)
            rows.append(
                [table.names[c], f"{numbers[0]:.1f}", f"{numbers[1]:,.0f}", f"{numbers[2]:.2f}", f"{numbers[3]:,.0f}"]
            )
    columns = [
        "contestant",
        "chosen epoch",
        "samples to 95 % of the best validation R@1",
        "best minus last epoch, points",
        "samples of a run, refit included",
    ]
    return [Table(columns, rows), Text("Means over seeds.")] if rows else []


def learned(run: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """Chosen epoch, samples to 95 % of the best, best minus last in points, samples in all."""
    history = run["history"]
    reached = next(epoch for epoch, value in enumerate(history, 1) if value >= 0.95 * max(history))
    each = epoch_samples(run["facts"]["images"]["train"], run["spec"]["training"]["batch_size"])
    return run["epochs"], reached * each, 100 * (max(history) - history[-1]), run["samples"]


def time_table(table: FairTable) -> Block:
    """Times and memory: of this machine, on the day."""
    rows = []
    mines = any("mining_seconds" in run["cost"] for runs in table.records.values() for run in runs)
    for c in table.order():
        runs = table.records[table.names[c]]
        seconds = np.mean([run["cost"]["seconds"] for run in runs])
        mining = np.mean([run["cost"].get("mining_seconds", 0.0) for run in runs])
        memory = max(run["cost"]["memory_mb"] for run in runs)
        samples = np.mean([run["samples"] for run in runs])
        recall = 100 * table.scores.means[c]
        times = [f"{seconds:.1f}", *([f"{mining:.1f}"] if mines else [])]
        rows.append([table.names[c], *times, f"{memory:,.0f}", f"{samples:,.0f}", f"{recall:.2f}"])
    spent = ["seconds of training steps", *(["seconds of offline mining"] if mines else [])]
    return Table(["contestant", *spent, "peak memory of its process, MB", "samples", "R@1 %"], rows)
