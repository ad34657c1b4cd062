"""The tables of a report: columns and rows of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from similis.study.plan.equal_terms import declared_differences
from similis.study.records import epoch_samples
from similis.study.report.judged_table import JudgedTable
from similis.study.statistics.fair_table import FairTable, own_intervals
from similis.study.statistics.rank_sums import RankSum, rank_sums
from similis.study.statistics.variance_components import Scores


class Table(NamedTuple):
    """Columns, and rows of as many cells."""

    columns: list[str]
    rows: list[list[str]]


def result_table(judged: JudgedTable, heading: str, cells: Mapping[str, str]) -> Table:
    """Mean recall with both intervals, verdicts and other metrics; below, the baselines.

    Args:
        judged: whose contestants are the rows; a star marks those that are not above a baseline of their size.
        heading: of the column of verdicts; empty for none.
        cells: contestant -> its cell in that column.
    """
    table = judged.whole
    samplers = {name: runs[0]["spec"]["training"]["sampler"] for name, runs in judged.whole.records.items()}
    shown = {**{f"recall@{k}": f"R@{k} %" for k in recall_cuts(table) if k > 1}, "map@r": "MAP@R %"}
    near, far = own_intervals(table.scores)
    rows = []
    for c in table.order():
        name = table.names[c]
        others = [np.mean([run["test"][key] for run in table.records[name]]) for key in shown]
        half = [format_half_width(each[c]) for each in (near, far)]
        mean = format_percent(table.scores.means[c])
        rows.append(
            [
                f"{name}{' *' * (name in judged.below)}",
                samplers[name],
                cells.get(name, ""),
                mean,
                *half,
                *map(format_percent, others),
            ]
        )
    for name, recall in judged.floors.items():
        floor = Scores((name,), recall[None], table.scores.sizes)
        half = [format_half_width(each[0]) for each in own_intervals(floor)]
        rows.append([f"baseline: {name}", "", "", format_percent(floor.means[0]), *half, *[""] * len(shown)])
    intervals = ["95 % interval for these test classes", "95 % interval for unseen classes"]
    columns = ["contestant", "sampler", heading, "R@1 %", *intervals, *shown.values()]
    kept = [n for n in range(len(columns)) if not (n == 1 and len(set(samplers.values())) < 2) and (n != 2 or heading)]
    return Table([columns[n] for n in kept], [[row[n] for n in kept] for row in rows])


def recall_cuts(table: FairTable) -> list[int]:
    """The numbers of neighbours k at which R@k was measured."""
    first = next(iter(table.records.values()))[0]
    return sorted(int(key[7:]) for key in first["test"] if key.startswith("recall@") and key[7:].isdigit())


def format_half_width(share: float) -> str:
    """Half the width of an interval in points; nothing where it has none."""
    return "" if np.isnan(share) else f"± {format_percent(share)}"


def format_percent(share: float) -> str:
    """A share in per cent, two digits."""
    return f"{100 * share:.2f}"


def rank_sum_table(tables: Sequence[FairTable]) -> Table | None:
    """Sums of ranks over tables; None where there are none."""
    lines = table_ranks(tables)
    rows = [[line.name, f"{line.total:g}", f"{line.mean:.2f}", f"{line.deviation:.2f}"] for line in lines]
    return Table(["contestant", "sum of ranks", "mean", "standard deviation"], rows) if rows else None


def table_ranks(tables: Sequence[FairTable]) -> list[RankSum]:
    """Ranks over tables of the contestants that all of them have; none for one table or contestant."""
    names = [name for name in tables[0].names if all(name in table.names for table in tables)]
    if len(tables) < 2 or len(names) < 2:
        return []
    return rank_sums([{n: float(table.scores.means[table.names.index(n)]) for n in names} for table in tables])


def curve_table(table: FairTable) -> Table:
    """How quickly and how stably each contestant learned."""
    rows = []
    for c in table.order():
        runs = [run for run in table.records[table.names[c]] if run["history"]]
        if runs:
            epoch, reached, best, lost, samples = np.mean([learning_figures(run) for run in runs], axis=0)
            cells = f"{epoch:.1f}", f"{reached:,.0f}", f"{best:.2f}", f"{lost:.2f}", f"{samples:,.0f}"
            rows.append([table.names[c], *cells])
    columns = ["contestant", "chosen epoch", "samples to 95 % of the best validation R@1", "best validation R@1 %",
               "best minus last epoch, points", "samples of a run, refit included"]  # fmt: skip
    return Table(columns, rows)


def learning_figures(run: Mapping[str, Any]) -> tuple[float, float, float, float, float]:
    """Chosen epoch, samples to 95 % of the best, the best in per cent, best minus last in points, samples in all."""
    history = run["history"]
    reached = next(epoch for epoch, value in enumerate(history, 1) if value >= 0.95 * max(history))
    each = epoch_samples(run["facts"]["images"]["train"], run["spec"]["training"]["batch_size"])
    best = 100 * max(history)
    return run["epochs"], reached * each, best, best - 100 * history[-1], run["samples"]


def fold_table(table: FairTable) -> Table | None:
    """The folds of a cross-validation: best validation and test R@1 of each, their mean and standard deviation."""
    if table.terms.get("data.protocol") != "cross-validation":
        return None
    rows = []
    for c in table.order():
        runs = table.records[table.names[c]]
        pairs = [
            (max(run["history"], default=run["validation"].get("recall@1", np.nan)), run["test"]["recall@1"])
            for run in runs
        ]
        rows += [[table.names[c], str(run["fold"] + 1), *map(format_percent, pair)]
                 for run, pair in zip(runs, pairs, strict=True)]  # fmt: skip
        means, spreads = np.mean(pairs, axis=0), np.std(pairs, axis=0, ddof=1)
        cells = (f"{format_percent(m)} ± {format_percent(s)}" for m, s in zip(means, spreads, strict=True))
        rows.append([table.names[c], "all", *cells])
    return Table(["contestant", "fold", "best validation R@1 %", "test R@1 %"], rows)


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


def held_table(tables: Sequence[FairTable]) -> Table:
    """Every setting that is equal for all rows of all tables."""
    rows = [[f"`{key}`", f"`{value}`"] for key, value in sorted(shared_terms(tables).items())]
    return Table(["setting", "value"], rows)


def shared_terms(tables: Sequence[FairTable]) -> dict[str, Any]:
    """The terms that all tables have in common."""
    return {k: v for k, v in tables[0].terms.items() if all(t.terms.get(k) == v for t in tables)}


def held_by_table(tables: Sequence[FairTable]) -> Table:
    """The terms in which tables differ."""
    common = shared_terms(tables)
    rows = [
        [f"{t.arena}, {t.length}", format_settings({k: v for k, v in sorted(t.terms.items()) if k not in common})]
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
