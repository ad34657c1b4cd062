"""The figures of the pages under ``results``: lines over a condition, and ranks from one data set to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from similis.figures.canvas import new_figure
from similis.figures.recall_plots import line_style

Line = Mapping[str, tuple[float, float]]  # condition -> mean and half width, per cent
AXIS = "R@1 on the test classes, %"


def lines(
    panels: Mapping[str, Mapping[str, Line]], path: Path, axis: str, dashed: Sequence[str] = (), value: str = AXIS
) -> None:
    """One panel for each title, one line for each name, over conditions in their order; bars are intervals."""
    figure = new_figure(2.2 + 3.4 * len(panels), 4.6)
    places = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for place, (title, named) in zip(places, panels.items(), strict=True):
        draw_panel(place, named, dashed)
        place.set(title=title, xlabel=axis)
        place.grid(axis="y", color="0.9")
    places[0].set_ylabel(value)
    known: dict[str, Any] = {}
    for place in places:
        known |= dict(zip(*reversed(place.get_legend_handles_labels()), strict=True))
    figure.legend(known.values(), known.keys(), loc="lower center", ncols=min(len(known), 4), frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.05 + 0.035 * (-(-len(known) // 4)), 1, 1))
    save(figure, path)


def draw_panel(place: Any, named: Mapping[str, Line], dashed: Sequence[str]) -> None:
    """The lines of one panel, a little apart so that intervals do not cover each other."""
    conditions = list(dict.fromkeys(key for line in named.values() for key in line))
    for number, (name, line) in enumerate(named.items()):
        colour, marker, _ = line_style(number)
        xs = [conditions.index(key) + 0.04 * (number - len(named) / 2) for key in line]
        means, halves = zip(*line.values(), strict=True)
        kind = "--" if name in dashed else "-"
        place.errorbar(xs, means, yerr=halves, color=colour, marker=marker, linestyle=kind, capsize=2, label=name)
    place.set_xticks(range(len(conditions)), conditions)
    place.set_xlim(-0.35, len(conditions) - 0.65)


def differences(named: Line, path: Path, axis: str) -> None:
    """One line for each name: a difference with its interval, and where none would be."""
    figure = new_figure(7.0, 0.9 + 0.5 * len(named))
    axes = figure.add_subplot()
    means, halves = zip(*named.values(), strict=True)
    places = range(len(named), 0, -1)
    axes.axvline(0, color="0.6", linewidth=1)
    axes.errorbar(means, places, xerr=halves, color=line_style(0)[0], marker="o", linestyle="none", capsize=3)
    axes.set_yticks(places, named)
    axes.set(xlabel=axis, ylim=(0.4, len(named) + 0.6))
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    save(figure, path)


def ranks(columns: Mapping[str, Sequence[str]], path: Path) -> None:
    """Contestants, best first, on each data set, joined by lines."""
    titles = list(columns)
    figure = new_figure(2.6 + 2.0 * len(titles), 4.8)
    axes = figure.add_subplot()
    first = list(columns[titles[0]])
    for number, name in enumerate(sorted(first)):
        colour, marker, dash = line_style(number)
        ys = [list(columns[title]).index(name) + 1 for title in titles]
        axes.plot(range(len(titles)), ys, color=colour, marker=marker, linestyle=dash)
        axes.text(-0.08, ys[0], name, ha="right", va="center", fontsize=9)
        axes.text(len(titles) - 0.92, ys[-1], name, ha="left", va="center", fontsize=9)
    axes.set_xticks(range(len(titles)), titles)
    axes.set(xlim=(-1.0, len(titles)), ylim=(len(first) + 0.5, 0.5), ylabel="rank by mean R@1")
    axes.set_yticks(range(1, len(first) + 1))
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a figure without a date inside."""
    figure.savefig(path, metadata={"Software": None})
