"""Selecting on test beside selecting on validation: where the points between the two come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import study_figures as draw
from benchmarks.study_cells import Key, Record, Table, cells, each, floor, interval, shown, tau

BUDGETS = {"three trials": ("test", "validation"), "ten trials": ("test-ten", "validation-ten")}
SOURCES = ("other settings", "other epoch", "shorter schedule of the refit")


def selection(place: Path) -> tuple[list[Table], Callable[[], None]]:
    """Recall by how settings and epoch were selected, the parts of the difference, shares for validation."""
    kinds = [kind for pair in BUDGETS.values() for kind in pair] + ["folds"]
    found = {(name, kind): rows for kind in kinds
             for (name,), rows in cells(place / kind, "contestant").items()}  # fmt: skip
    units = {key: each(rows, "fold" if key[1] == "folds" else "seed") for key, rows in found.items()}
    names = sorted({name for name, _ in found}, key=lambda n: -units[n, "validation"].mean())
    listed = [(n, *(shown(interval(units[n, kind])) for kind in kinds)) for n in names]
    listed.append(("untrained network", floor("omniglot-slim untrained"), "", "", "", ""))
    columns = ["loss", "on test, 3 trials", "on validation, 3 trials", "on test, 10 trials",
               "on validation, 10 trials", "by ten folds, 3 trials"]  # fmt: skip
    parts = {budget: {n: parts_of_gain(found, n, *pair) for n in names} for budget, pair in BUDGETS.items()}
    rows = []
    for budget, by_loss in parts.items():
        each_loss = np.stack(list(by_loss.values()))  # losses x sources
        means = [shown(interval(column)) for column in (each_loss.sum(1), *each_loss.T)]
        rows.append((budget, *means))
    sources = Table(["search", "on test minus on validation, points", *SOURCES], rows)
    shares, taus = validation_shares(cells(place / "shares", "arena", "contestant"))
    gains = {n: {budget: (100 * float(parts[budget][n].sum()), 0.0) for budget in BUDGETS} for n in names}
    axes = [("budget of the search", "R@1 selected on test minus on validation, points"),
            ("training classes kept for validation", "Kendall's tau of validation and test orders")]  # fmt: skip
    return [Table(columns, listed), sources, shares], partial(draw.two, gains, taus, place / "figure.png", axes)


def parts_of_gain(found: Mapping[Key, Sequence[Record]], name: str, tested: str, validated: str) -> np.ndarray:
    """Mean over seeds of what settings, epoch and schedule contribute; they add up to the difference.

    A run selected on test whose settings are those of the run selected on validation has the recall on test of every
    epoch: at the epoch that validation chose it differs by the epoch alone. The rest is the refit, which trains for
    that many epochs with the whole schedule.
    """
    runs = []
    for seed, (one, other) in enumerate(zip(found[name, tested], found[name, validated], strict=True)):
        candidates = [found[name, kind][seed] for kind in (tested, "test")]
        alike = [run for run in candidates if settings(run) == settings(other)]
        mine, theirs = (r["test"]["recall@1"] for r in (one, other))
        if not alike:  # then validation chose the last epoch, and the refit has the same schedule
            assert other["epochs"] == one["epochs"]
            runs.append((mine - theirs, 0.0, 0.0))
            continue
        last, chosen = alike[0]["test"]["recall@1"], alike[0]["history"][other["epochs"] - 1]
        runs.append((mine - last, last - chosen, chosen - theirs))
    return np.mean(runs, axis=0)


def settings(record: Record) -> tuple[Any, Any]:
    """What a search chooses."""
    return record["spec"]["objective"], record["spec"]["training"]["loss_multiplier"]


def validation_shares(
    found: Mapping[Key, Sequence[Record]],
) -> tuple[Table, dict[str, dict[str, tuple[float, float]]]]:
    """How well the order on validation classes predicts the order on test, for each share of classes."""
    rows, lines = [], dict[str, dict[str, tuple[float, float]]]()
    for arena in sorted({arena for arena, _ in found}):
        runs = [own for (a, _), own in found.items() if a == arena]
        seen, asked = (np.stack([each(own, split=split) for own in runs]) for split in ("validation", "test"))
        taus = {"means of the seeds": tau(seen.mean(1), asked.mean(1))[0]}
        taus |= {f"seed {s}": tau(seen[:, s], asked[:, s])[0] for s in range(seen.shape[1])}
        share, classes = f"{int(arena[-2:])} %", runs[0][0]["facts"]["images"]["validation"] // 20  # images of a class
        recalls = (f"{100 * part.mean():.1f}" for part in (seen, asked))
        rows.append((f"{share} ({classes})", *recalls, *(f"{t:.2f}" for t in taus.values())))
        for name, agreement in taus.items():
            lines.setdefault(name, {})[share] = (agreement, 0.0)
    columns = ["classes kept for validation", "mean R@1 there %", "mean R@1 on test %",
               "tau of the two orders, means of seeds"]  # fmt: skip
    return Table([*columns, *list(lines)[1:]], rows), lines
