"""What the searches found: gains, chosen settings and how near they lie to the edge of their range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from similis.registry import Range
from similis.study.plan.jobs import first_settings
from similis.study.plan.schema import Plan
from similis.study.report.tables import Table, format_percent, format_settings

EDGE = 0.05  # share of a range that counts as near its edge
Searches = Mapping[str, Sequence[Mapping[str, Any]]]


def group_searches(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Contestant -> the record of each of its searches, by repetition."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in sorted(records, key=lambda each: (each["contestant"], each["repetition"])):
        found.setdefault(record["contestant"], []).append(record)
    return found


def search_table(searches: Searches) -> Table:
    """What the searches of each contestant found over its first preset; means over repetitions."""
    rows = []
    for name, records in searches.items():
        if not any(record["trials"] for record in records):
            continue
        trials, lost, pruned, samples = (
            sum(record.get(key, 0) for record in records) for key in ("trials", "diverged", "pruned", "samples")
        )
        preset, best = (float(np.mean([record[key] for record in records])) for key in ("preset_value", "value"))
        rows.append([
            name, f"{trials}" + (f" ({lost} diverged)" if lost else ""), f"{pruned}", f"{samples:,}",
            format_percent(preset), format_percent(best), f"{100 * (best - preset):+.2f}",
        ])  # fmt: skip
    columns = ["contestant", "trials", "pruned", "samples", "first preset, R@1 %", "best, R@1 %", "gain"]
    return Table(columns, rows)


def settings_table(plan: Plan, searches: Searches) -> Table:
    """Every chosen setting by repetition, its place in the range, and how many lie near an edge."""
    rows = []
    for name, records in searches.items():
        contestant, space = plan.contestant(name), records[0]["space"]
        if not space or len(records[0]["values"]) < 2:
            own = format_settings(contestant.options)
            rows.append([name, "–", "–", f"preset {contestant.start}" + (f", {own}" if own else ""), "–"])
            continue
        first = first_settings(contestant, space, plan.terms.training.lr)
        for key, limits in space.items():
            kind = Range(*limits)
            cells, near = [], 0
            for record in records:
                chosen = {**first, **record["settings"]}.get(key)
                cell, edge = describe_setting(chosen, kind)
                cells.append(cell + ("" if record["settings"] else ", preset"))
                near += edge
            scale = " (log)" if kind.log else ""
            rows.append([name, f"`{key}`", f"{kind.low:g} to {kind.high:g}{scale}", "; ".join(cells),
                         f"{near} of {len(records)}"])  # fmt: skip
    return Table(["contestant", "setting", "range", "chosen by each search", "near an edge"], rows)


def describe_setting(value: float | None, kind: Range) -> tuple[str, bool]:
    """A value with its place in the range, and whether that is near an edge.

    Example:
        >>> describe_setting(0.5, Range(0.0, 1.0)), describe_setting(9.5, Range(0.1, 10.0, log=True))
        (('0.5 (50 %)', False), ('9.5 (98.9 %, high edge)', True))
    """
    if value is None:
        return "default", False
    if kind.log:
        share = math.log(value / kind.low) / math.log(kind.high / kind.low)
    else:
        share = (value - kind.low) / (kind.high - kind.low)
    edge = "low edge" if share <= EDGE else "high edge" if share >= 1 - EDGE else ""
    return f"{value:.4g} ({100 * share:.3g} %{', ' + edge if edge else ''})", bool(edge)
