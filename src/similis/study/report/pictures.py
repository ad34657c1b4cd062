"""The pictures of a report, each with words for those who do not see it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from similis.data.images import prepare, resize
from similis.data.open_data import open_data
from similis.figures.recall_plots import (
    draw_class_wins,
    draw_cost,
    draw_learning_curves,
    draw_recall_by_loss,
    draw_recall_lines,
)
from similis.study.plan.schema import Plan
from similis.study.statistics.fair_table import FairTable, own_intervals
from similis.study.tournament_folder import TournamentFolder
from similis.values import SimilisError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_CLASSES = 5
PHOTO_SIDE = 64


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


def recall_picture(table: FairTable, out: Path) -> Picture:
    """Recall by loss with intervals and every seed."""
    scores = table.scores
    near, far = own_intervals(scores)
    rows = [
        (table.names[c], 100 * scores.means[c], 100 * near[c], 100 * far[c], list(100 * scores.per_repetition[c]))
        for c in table.order()
    ]
    words = ", ".join(f"{row[0]} {row[1]:.1f}" for row in rows)
    figure = draw_recall_by_loss(rows, f"Recall by loss: {table.title}")
    return save_picture(figure, out, f"recall-{table.arena}-{table.length}", f"Mean R@1 in per cent: {words}")


def learning_picture(table: FairTable, out: Path) -> Picture:
    """Validation R@1 over epochs, mean over repetitions as far as all of them run."""
    curves: dict[str, list[float]] = {}
    for name in table.names:  # by name in every picture: a contestant keeps its colour
        histories = [run["history"] for run in table.records[name]]
        curves[name] = [100 * float(np.mean(values)) for values in zip(*histories, strict=False)]
    words = ", ".join(f"{name} ends at {values[-1]:.1f}" for name, values in curves.items() if values)
    where = "test" if table.selected_on_test else "validation"
    figure = draw_learning_curves(curves, f"Learning curves ({where} classes): {table.title}")
    return save_picture(figure, out, f"learning-{table.arena}-{table.length}", f"R@1 by epoch: {words}")


def cost_picture(table: FairTable, out: Path) -> Picture:
    """Seconds of training steps and mining against recall."""
    rows = []
    for c, name in enumerate(table.names):
        costs = [run["cost"] for run in table.records[name]]
        seconds = float(np.mean([cost["seconds"] + cost.get("mining_seconds", 0.0) for cost in costs]))
        rows.append((name, seconds, 100 * float(table.scores.means[c])))
    words = ", ".join(f"{name} {seconds:.0f} s and {recall:.1f} %" for name, seconds, recall in rows)
    figure = draw_cost(rows, f"Cost against quality: {table.title}")
    return save_picture(figure, out, f"cost-{table.arena}-{table.length}", f"Seconds and R@1: {words}")


def condition_pictures(plan: Plan, tables: Sequence[FairTable], out: Path) -> dict[str, Picture]:
    """Recall over embedding sizes and over networks, where a plan has several: condition -> picture."""
    found = {}
    length = next(iter(plan.lengths))
    for field, name in (("model.dim", "embedding size"), ("model.backbone", "network")):
        places: dict[str, FairTable] = {}
        for table in tables:
            if table.length == length:
                places.setdefault(str(table.terms.held[field]), table)
        if len(places) < 2:
            continue
        lines: dict[str, dict[str, float]] = {}
        for place in sorted(places, key=int) if field == "model.dim" else places:
            for title, mean in zip(places[place].names, places[place].scores.means, strict=True):
                lines.setdefault(title, {})[place] = 100 * float(mean)
        shown = {title: line for title, line in lines.items() if len(line) > 1}
        words = "; ".join(f"{k}: " + ", ".join(f"{p} {v:.1f}" for p, v in line.items()) for k, line in shown.items())
        figure = draw_recall_lines(shown, f"Recall by {name}: {length}", name)
        found[name] = save_picture(figure, out, f"recall_by_{name}", f"R@1 by {name}. {words}")
    return found


def wins_picture(table: FairTable, folder: TournamentFolder, out: Path) -> Picture:
    """The classes on which the two highest means differ most, either way, with a photo of each."""
    a, b = table.order()[:2]
    first, second = table.names[a], table.names[b]
    mean = table.scores.values.mean(axis=2)
    apart = 100 * (mean[a] - mean[b])
    order = np.argsort(-apart, kind="stable")
    number = min(SHOWN_CLASSES, len(order) // 2)
    chosen = [*order[:number], *order[len(order) - number :]]
    rows = [(*name_and_photo(table, folder, int(k)), float(apart[k])) for k in chosen]
    figure = draw_class_wins(
        [(name, points, photo) for name, photo, points in rows],
        f"Per-class wins and losses: {first} against {second}, {table.title}",
        f"points of R@1: right {first} ahead, left {second} ahead",
    )
    words = ", ".join(f"{name} {points:+.0f}" for name, _, points in rows)
    ahead, behind, equal = (int(which.sum()) for which in (apart > 0, apart < 0, apart == 0))
    caption = f"{first} is ahead in {ahead} classes, {second} in {behind}, equal in {equal}."
    return save_picture(figure, out, f"classes-{table.arena}-{table.length}", f"Differences by class: {words}", caption)


def name_and_photo(table: FairTable, folder: TournamentFolder, place: int) -> tuple[str, Any]:
    """The name of a test class and its first photo; without the data set, the label alone."""
    label = table.labels[place]
    try:
        held = table.terms.held
        manifest = open_data(held["data.source"], root=folder.data_root, allow_counts=held["data.allow_counts"])
        first = (manifest.labels == label).nonzero()[0]
        photo = prepare(manifest.read_bytes(int(first)), resize=PHOTO_SIDE)
        return manifest.classes(first)[label][:28], resize(photo, PHOTO_SIDE, "bilinear")
    except SimilisError:
        return f"class {label}", None
