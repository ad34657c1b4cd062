"""The pictures of a report, each with words for those who do not see it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from similis.figures.forest_plot import ForestRow, draw_forest
from similis.figures.recall_plots import draw_progress, draw_recall_by_loss, draw_recall_lines
from similis.study.plan.schema import Plan
from similis.study.report.judged_table import JudgedTable
from similis.study.report.search_tables import Searches
from similis.study.report.tables import recall_cuts
from similis.study.statistics.fair_table import FairTable
from similis.study.statistics.significance import TARGETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A picture file, what it shows in words, and a caption."""

    file: Path
    alt: str
    caption: str = ""

    @property
    def data(self) -> str:
        """The file in base 64."""
        return base64.b64encode(self.file.read_bytes()).decode()


def save_picture(figure: Figure, out: Path, name: str, alt: str, caption: str = "") -> Picture:
    """Write a figure to ``out/figures``, without a date inside, so that equal figures are equal bytes."""
    file = out / "figures" / f"{name.replace(' ', '_')}.png"
    figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
    return Picture(file, alt, caption)


def difference_picture(judged: JudgedTable, out: Path) -> Picture:
    """Differences of all contestants to the baseline, or else to the highest mean."""
    table, means, against = judged.whole, 100 * judged.whole.scores.means, judged.plan.against
    reference, role = (judged.ranking[0], "the highest mean") if against is None else (against, "the baseline")
    found: dict[str, list[tuple[float, float, float]]] = {}
    for v in judged.asked:  # the reference is ahead, or named second
        if v.second == reference:
            found.setdefault(v.first, []).append((v.difference, v.low, v.high))
        elif v.first == reference:
            found.setdefault(v.second, []).append((-v.difference, -v.high, -v.low))
    base, rows = means[table.names.index(reference)], []
    for name in judged.ranking:
        if name != reference:
            number, (near, far) = table.names.index(name), found[name]
            each = list(100 * table.scores.per_repetition[number] - base)
            rows.append(ForestRow(f"{name}, {means[number]:.1f} %", near[0], near[1:], far[1:], each))
    title = f"Differences to {reference} ({role}, {base:.1f} %): {table.title}"
    figure = draw_forest(rows, title, margin=judged.plan.margin, axis=f"points of R@1, contestant minus {reference}")
    words = ", ".join(f"{row.name} {row.difference:+.1f}" for row in rows)
    caption = (
        f"Intervals are simultaneous over {len(judged.asked) // len(TARGETS)} comparisons; verdicts by Holm's "
        f"correction are a little sharper. A dot is one repetition minus the mean of {reference}."
    )
    name = f"differences-{table.arena}-{table.length}-{reference}"
    return save_picture(figure, out, name, f"Differences in points to {reference}: {words}", caption)


def highlight(judged: JudgedTable) -> list[str]:
    """Contestants in the order in which pictures highlight them: the baseline, then by falling mean."""
    whole = judged.whole
    return list(dict.fromkeys([*filter(None, [judged.plan.against]), *(whole.names[c] for c in whole.order())]))


def learning_picture(judged: JudgedTable, out: Path) -> Picture:
    """Validation R@1 over epochs, mean over repetitions as far as all of them run."""
    table = judged.whole
    histories = {name: [run["history"] for run in table.records[name]] for name in table.names}
    names = "epoch", f"R@1 on the {'test' if table.selected_on_test else 'validation'} classes, %"
    figure, words = draw_means(histories, f"Learning curves: {table.title}", names, highlight(judged))
    return save_picture(figure, out, f"learning-{table.arena}-{table.length}", f"R@1 by epoch: {words}")


def tuning_picture(searches: Searches, highlighted: Sequence[str], on_test: bool, out: Path) -> Picture | None:
    """The best R@1 so far against trials, mean over repetitions as far as all of them run."""
    tried = {
        name: [[value or 0.0 for value in record["values"]] for record in found] for name, found in searches.items()
    }
    if max(min(map(len, found)) for found in tried.values()) < 2:
        return None
    best = {name: [list(np.maximum.accumulate(values)) for values in found] for name, found in tried.items()}
    names = "trial; the first is the preset", f"best R@1 so far on the {'test' if on_test else 'validation'} classes, %"
    figure, words = draw_means(best, "Tuning curves", names, highlighted)
    return save_picture(figure, out, "tuning", f"Best R@1 so far by trial: {words}")


def draw_means(
    runs: Mapping[str, Sequence[Sequence[float]]], title: str, names: tuple[str, str], highlighted: Sequence[str]
) -> tuple[Figure, str]:
    """Draw the mean over the runs of each contestant, as far as all of them run; the figure, and its ends in words."""
    curves = {name: [100 * float(np.mean(each)) for each in zip(*found, strict=False)] for name, found in runs.items()}
    words = ", ".join(f"{name} ends at {values[-1]:.1f}" for name, values in curves.items() if values)
    return draw_progress(curves, title, names, highlighted), words


def condition_pictures(plan: Plan, tables: Sequence[FairTable], out: Path) -> dict[str, Picture]:
    """Recall over sizes for each network, and over networks at the size of the terms: condition -> picture."""
    found = {}
    length = next(iter(plan.lengths))
    shown = [table for table in tables if table.length == length]
    networks = list(dict.fromkeys(str(table.terms["model.backbone"]) for table in shown))
    for network in networks:
        places = {str(t.terms["model.dim"]): t for t in shown if t.terms["model.backbone"] == network}
        name = "embedding size" + (f" of {network}" if len(networks) > 1 else "")
        ordered = sorted(places, key=lambda size: (len(size), size))
        found[name] = recall_picture({size: places[size] for size in ordered}, name, length, out)
    sizes = [table.terms["model.dim"] for table in shown]
    size = plan.terms.model.dim if plan.terms.model.dim in sizes else sizes[0]
    places = {str(t.terms["model.backbone"]): t for t in shown if t.terms["model.dim"] == size}
    found["network"] = recall_picture(places, "network", f"{length}, size {size}", out)
    return {name: picture for name, picture in found.items() if picture is not None}


def recall_picture(places: Mapping[str, FairTable], name: str, title: str, out: Path) -> Picture | None:
    """A line for each contestant over sizes or networks; None for fewer than two of them."""
    if len(places) < 2:
        return None
    lines: dict[str, dict[str, float]] = {}
    for place, table in places.items():
        for contestant, mean in zip(table.names, table.scores.means, strict=True):
            lines.setdefault(contestant, {})[place] = 100 * float(mean)
    shown = {contestant: line for contestant, line in lines.items() if len(line) > 1}
    words = "; ".join(f"{k}: " + ", ".join(f"{p} {v:.1f}" for p, v in line.items()) for k, line in shown.items())
    figure = draw_recall_lines(shown, f"Recall by {name}: {title}", name)
    return save_picture(figure, out, f"recall_by_{name}", f"R@1 by {name}. {words}")


def cuts_picture(table: FairTable, out: Path) -> Picture:
    """Recall of every contestant at every cut, the highest R@1 first."""
    runs, lines = {table.names[c]: table.records[table.names[c]] for c in table.order()}, {}
    for k in recall_cuts(table):
        lines[f"R@{k}"] = {
            n: 100 * float(np.mean([r["test"][f"recall@{k}"] for r in each])) for n, each in runs.items()
        }
    words = "; ".join(f"{cut}: " + ", ".join(f"{n} {v:.1f}" for n, v in line.items()) for cut, line in lines.items())
    figure = draw_recall_by_loss(lines, f"Recall by loss: {table.title}")
    return save_picture(figure, out, f"recall_by_loss-{table.arena}-{table.length}", f"Recall by loss. {words}")
