"""The pictures of a report, each with words for those who do not see it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from similis.data.images import prepare, resized
from similis.data.opening import open_data
from similis.figures.tournament import class_wins, cost_and_quality, learning_curves, recall_by, recall_by_loss
from similis.study.page import Block, Heading, Picture
from similis.study.plan import Plan
from similis.study.table import FairTable, own_intervals
from similis.values import SimilisError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from similis.study.tournament import Folder

SHOWN_CLASSES = 5
PHOTO_SIDE = 64


def picture(name: str, figure: Figure, alt: str, caption: str = "") -> Picture:
    """A figure as a picture; without a date inside, so that equal figures are equal bytes."""
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=110, metadata={"Software": None})
    return Picture(name, held.getvalue(), alt, caption)


def slug(table: FairTable, what: str) -> str:
    """A file name."""
    return f"{what}-{table.arena}-{table.length}".replace(" ", "_")


def recall_picture(table: FairTable, title: str) -> Picture:
    """Recall by loss with intervals and every seed."""
    scores = table.scores
    flat = np.zeros(len(table.names))
    near, far = own_intervals(scores) if len(table.seeds) > 1 and len(table.labels) > 1 else (flat, flat)
    rows = [
        (table.names[c], 100 * scores.means[c], 100 * near[c], 100 * far[c], list(100 * scores.per_seed[c]))
        for c in table.order()
    ]
    words = ", ".join(f"{row[0]} {row[1]:.1f}" for row in rows)
    return picture(
        slug(table, "recall"), recall_by_loss(rows, f"Recall by loss: {title}"), f"Mean R@1 in per cent: {words}"
    )


def curves_picture(table: FairTable, title: str) -> Picture:
    """Validation R@1 over epochs, mean over seeds as far as all of them run."""
    curves: dict[str, list[float]] = {}
    for name in table.names:  # by name in every picture: a contestant keeps its colour
        histories = [r["history"] for r in table.records[name]]
        length = min(len(h) for h in histories)
        curves[name] = [100 * float(np.mean([h[i] for h in histories])) for i in range(length)]
    words = ", ".join(f"{name} ends at {values[-1]:.1f}" for name, values in curves.items() if values)
    where = "test" if table.selected_on_test else "validation"
    return picture(
        slug(table, "learning"),
        learning_curves(curves, f"Learning curves ({where} classes): {title}"),
        f"R@1 by epoch: {words}",
    )


def cost_picture(table: FairTable, title: str) -> Picture:
    """Seconds of training steps and mining against recall."""
    rows = []
    for c, name in enumerate(table.names):
        costs = [r["cost"] for r in table.records[name]]
        seconds = float(np.mean([cost["seconds"] + cost.get("mining_seconds", 0.0) for cost in costs]))
        rows.append((name, seconds, 100 * float(table.scores.means[c])))
    words = ", ".join(f"{name} {seconds:.0f} s and {recall:.1f} %" for name, seconds, recall in rows)
    return picture(
        slug(table, "cost"), cost_and_quality(rows, f"Cost against quality: {title}"), f"Seconds and R@1: {words}"
    )


def sizes_picture(plan: Plan, tables: Sequence[FairTable]) -> list[Picture]:
    """Recall over embedding sizes and over networks, where a plan has several."""
    found = []
    length = next(iter(plan.lengths))
    same = [t for t in tables if t.length == length]
    for field, name in (("model.dim", "embedding size"), ("model.backbone", "network")):
        places = list(dict.fromkeys(str(t.terms.held[field]) for t in same))
        if len(places) < 2:
            continue
        order = sorted(places, key=int) if field == "model.dim" else places
        lines: dict[str, dict[str, float]] = {}
        for place in order:
            table = next(t for t in same if str(t.terms.held[field]) == place)
            for c, title in enumerate(table.names):
                lines.setdefault(title, {})[place] = 100 * float(table.scores.means[c])
        shown: Mapping[str, Mapping[str, float]] = {k: v for k, v in lines.items() if len(v) > 1}
        words = "; ".join(f"{k}: " + ", ".join(f"{p} {v:.1f}" for p, v in line.items()) for k, line in shown.items())
        figure = recall_by(shown, f"Recall by {name}: {length}", name)
        found.append(picture(f"recall_by_{name.replace(' ', '_')}", figure, f"R@1 by {name}. {words}"))
    return found


def wins_pictures(table: FairTable, folder: Folder, title: str) -> list[Block]:
    """The classes on which the two highest means differ most, either way, with a photo of each."""
    a, b = table.order()[:2]
    mean = table.scores.values.mean(axis=2)
    apart = 100 * (mean[a] - mean[b])
    order = np.argsort(-apart, kind="stable")
    number = min(SHOWN_CLASSES, len(order) // 2)
    chosen = [*order[:number], *order[len(order) - number :]]
    rows = [(name_and_photo(table, folder, int(k)), float(apart[k])) for k in chosen]
    names = (table.names[a], table.names[b])
    wins = int((apart > 0).sum())
    figure = class_wins(
        [(name, points, photo) for (name, photo), points in rows],
        f"Per-class wins and losses: {names[0]} against {names[1]}, {title}",
        f"points of R@1: right {names[0]} ahead, left {names[1]} ahead",
    )
    words = ", ".join(f"{name} {points:+.0f}" for (name, _), points in rows)
    behind, equal = int((apart < 0).sum()), int((apart == 0).sum())
    caption = f"{names[0]} is ahead in {wins} classes, {names[1]} in {behind}, equal in {equal}."
    return [
        Heading("Per-class wins and losses", 3),
        picture(slug(table, "classes"), figure, f"Differences by class: {words}", caption),
    ]


def name_and_photo(table: FairTable, folder: Folder, place: int) -> tuple[str, Any]:
    """The name of a test class and its first photo; without the data set, the label alone."""
    label = table.labels[place]
    try:
        held = table.terms.held
        manifest = open_data(held["data.source"], root=folder.data_root, allow_counts=held["data.allow_counts"])
        first = (manifest.labels == label).nonzero()[0]
        photo = prepare(manifest.read_bytes(int(first)), resize=PHOTO_SIDE)
        return manifest.classes(first)[label][:28], resized(photo, PHOTO_SIDE, "bilinear")
    except SimilisError:
        return f"class {label}", None
