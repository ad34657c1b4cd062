"""The tables of a report: columns and rows of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from similis.study.plan.cost import epoch_samples
from similis.study.plan.equal_terms import declared_differences
from similis.study.statistics.fair_table import FairTable, own_intervals
from similis.study.statistics.rank_sums import interquartile_mean, rank_sums
from similis.study.statistics.verdicts import PairVerdict

METRICS = {"recall@2": "R@2 %", "recall@4": "R@4 %", "recall@8": "R@8 %", "map@r": "MAP@R %"}


class Table(NamedTuple):
    """Columns, and rows of as many cells."""

    columns: list[str]
    rows: list[list[str]]


def result_table(table: FairTable, searches: Mapping[str, Any]) -> Table:
    """Mean recall with both intervals, other metrics, and the settings that the search chose."""
    near, far = own_intervals(table.scores)
    shown = [key for key in METRICS if key in table.records[table.names[0]][0]["test"]]
    rows = []
    for c in table.order():
        runs = table.records[table.names[c]]
        settings = searches.get(table.names[c], {}).get("settings") or {}
        chosen = ", ".join(f"{key} {value:.4g}" for key, value in settings.items())
        middle = interquartile_mean(table.scores.per_repetition[c])
        others = [np.mean([run["test"][key] for run in runs]) for key in shown]
        rows.append([
            table.names[c], format_percent(table.scores.means[c]), f"± {format_percent(near[c])}",
            f"± {format_percent(far[c])}", *map(format_percent, [middle, *others]),
            chosen or f"preset {runs[0]['spec']['objective']['preset']}",
        ])  # fmt: skip
    intervals = ["95 % interval for these test classes", "95 % interval for unseen classes"]
    metrics = ["interquartile mean over repetitions, R@1 %", *(METRICS[key] for key in shown)]
    return Table(["contestant", "R@1 %", *intervals, *metrics, "settings"], rows)


def format_percent(share: float) -> str:
    """A share in per cent, two digits."""
    return f"{100 * share:.2f}"


def verdict_matrix(table: FairTable, verdicts: Sequence[PairVerdict]) -> Table:
    """Row against column: for unseen classes, and in brackets for these test classes."""
    words: dict[tuple[str, str], list[str]] = {}
    for v in reversed(verdicts):  # unseen classes first
        better = v.verdict == "better"
        words.setdefault((v.first, v.second), []).append("better" if better else "–")
        words.setdefault((v.second, v.first), []).append("worse" if better else "–")
    names = [table.names[c] for c in table.order()]
    cells = {pair: "{} ({})".format(*both) for pair, both in words.items()}
    return Table(["", *names], [[a, *(cells.get((a, b), "") for b in names)] for a in names])


def pair_table(verdicts: Sequence[PairVerdict]) -> Table:
    """Every number behind the sentences."""
    rows = [
        [v.first, v.second, v.target, v.verdict, f"{v.difference:+.2f}", f"{v.error:.2f}", f"{v.freedom:.1f}",
         f"{v.low:+.2f} to {v.high:+.2f}", f"{v.p:.4f}", f"{v.detectable:.2f}", f"{v.improvement:.2f}"]
        for v in verdicts
    ]  # fmt: skip
    columns = ["first", "second", "target", "verdict", "points", "standard error", "degrees of freedom",
               "simultaneous 95 % interval", "p (Holm)", "detectable with 80 % power", "P(improvement)"]  # fmt: skip
    return Table(columns, rows)


def rank_sum_table(tables: Sequence[FairTable]) -> tuple[str, Table]:
    """Sums of ranks over tables with the same contestants, or over the repetitions of a single one; and over what."""
    whole = [t for t in tables if t.names == tables[0].names]
    over = f"{len(whole)} tables" if len(whole) > 1 else f"{len(tables[0].repetitions)} repetitions of one table"
    scores = [t.scores.means for t in whole] if len(whole) > 1 else list(tables[0].scores.per_repetition.T)
    lines = rank_sums([dict(zip(tables[0].names, map(float, each), strict=True)) for each in scores])
    rows = [[line.name, f"{line.total:g}", f"{line.mean:.2f}", f"{line.deviation:.2f}"] for line in lines]
    return over, Table(["contestant", "sum of ranks", "mean", "standard deviation"], rows)


def curve_table(table: FairTable) -> Table:
    """How quickly and how stably each contestant learned."""
    rows = []
    for c in table.order():
        runs = [run for run in table.records[table.names[c]] if run["history"]]
        if runs:
            epoch, reached, lost, samples = np.mean([learning_figures(run) for run in runs], axis=0)
            rows.append([table.names[c], f"{epoch:.1f}", f"{reached:,.0f}", f"{lost:.2f}", f"{samples:,.0f}"])
    columns = ["contestant", "chosen epoch", "samples to 95 % of the best validation R@1",
               "best minus last epoch, points", "samples of a run, refit included"]  # fmt: skip
    return Table(columns, rows)


def learning_figures(run: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """Chosen epoch, samples to 95 % of the best, best minus last in points, samples in all."""
    history = run["history"]
    reached = next(epoch for epoch, value in enumerate(history, 1) if value >= 0.95 * max(history))
    each = epoch_samples(run["facts"]["images"]["train"], run["spec"]["training"]["batch_size"])
    return run["epochs"], reached * each, 100 * (max(history) - history[-1]), run["samples"]


def time_table(table: FairTable) -> Table:
    """Times and memory of this machine on the day."""
    mines = any("mining_seconds" in run["cost"] for runs in table.records.values() for run in runs)
    rows = []
    for c in table.order():
        runs = table.records[table.names[c]]
        seconds = np.mean([run["cost"]["seconds"] for run in runs])
        mining = [f"{np.mean([run['cost'].get('mining_seconds', 0.0) for run in runs]):.1f}"] if mines else []
        memory = max(run["cost"]["memory_mb"] for run in runs)
        samples = np.mean([run["samples"] for run in runs])
        recall = format_percent(table.scores.means[c])
        rows.append([table.names[c], f"{seconds:.1f}", *mining, f"{memory:,.0f}", f"{samples:,.0f}", recall])
    spent = ["seconds of training steps", *(["seconds of offline mining"] if mines else [])]
    return Table(["contestant", *spent, "peak memory of its process, MB", "samples", "R@1 %"], rows)


def search_table(searches: Sequence[Mapping[str, Any]]) -> Table:
    """What the search found over the first preset."""
    rows = []
    for record in searches:
        lost = record.get("diverged", 0)
        gain = 100 * (record["value"] - record["preset_value"])
        shares = sorted(record["importance"].items(), key=lambda item: -item[1])
        rows.append([
            record["contestant"], f"{record['trials']}" + (f" ({lost} diverged)" if lost else ""),
            f"{record['pruned']}", f"{record['samples']:,}", format_percent(record["preset_value"]),
            format_percent(record["value"]), f"{gain:+.2f}",
            ", ".join(f"{key} {100 * share:.0f} %" for key, share in shares) or "–",
        ])  # fmt: skip
    columns = ["contestant", "trials", "pruned", "samples", "first preset, R@1 %", "best, R@1 %", "gain", "importance"]
    return Table(columns, rows)


def held_table(tables: Sequence[FairTable]) -> Table:
    """Every setting that is equal for all rows of all tables."""
    return Table(
        ["setting", "value"], [[f"`{key}`", f"`{value}`"] for key, value in sorted(shared_terms(tables).items())]
    )


def samplers_differ(tables: Sequence[FairTable]) -> bool:
    """Whether each loss uses its own sampler, because the plan names none."""
    return any(table.terms.held.get("training.sampler", "") is None for table in tables)


def shared_terms(tables: Sequence[FairTable]) -> dict[str, Any]:
    """The terms that all tables have in common."""
    return {k: v for k, v in tables[0].terms.held.items() if all(t.terms.held.get(k) == v for t in tables)}


def held_by_table(tables: Sequence[FairTable]) -> Table:
    """The terms in which tables differ."""
    common = shared_terms(tables)
    rows = [
        [f"{t.arena}, {t.length}", format_settings({k: v for k, v in sorted(t.terms.held.items()) if k not in common})]
        for t in tables
    ]
    return Table(["table", "equal inside it"], rows)


def declared_table(tables: Sequence[FairTable]) -> Table:
    """In what contestants differ from the terms because the plan says so."""
    declared = {name: declared_differences(runs[0]) for t in tables for name, runs in t.records.items()}
    rows = [[name, format_settings(own)] for name, own in declared.items() if own]
    return Table(["contestant", "differs from the terms in"], rows)


def opening_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """How often each contestant opened the test split, and why."""
    counts = Counter((str(entry["contestant"]), str(entry["why"])) for entry in entries)
    rows = [[name, why, str(number)] for (name, why), number in sorted(counts.items())]
    return Table(["contestant", "why", "openings"], rows)


def format_settings(values: Mapping[str, Any]) -> str:
    """Settings in one cell."""
    return ", ".join(f"`{key}` = `{value}`" for key, value in values.items())
