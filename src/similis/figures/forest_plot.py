"""Differences with their intervals, one line each: to a baseline, or to the best."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from similis.figures.canvas import COLOURS, new_figure, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LONGEST = 44  # characters of a name


class ForestRow(NamedTuple):
    """A difference in points, the ends of its 95 % intervals for these test classes and for unseen classes, and what
    each repetition would say.
    """

    name: str
    difference: float
    near: tuple[float, float]
    far: tuple[float, float]
    repetitions: Sequence[float] = ()


def draw_forest(rows: Sequence[ForestRow], title: str, *, margin: float, axis: str) -> Figure:
    """One line for each difference, the first on top; the band is the margin of equivalence.

    Args:
        rows: what to draw.
        title: of the figure.
        margin: in points.
        axis: what a positive difference means.
    """
    figure = new_figure(8.5, 1.9 + 0.36 * len(rows))
    axes = figure.add_subplot()
    axes.axvspan(-margin, margin, color="0.92", zorder=0)
    axes.axvline(0.0, color="0.4", linewidth=1)
    heights = range(len(rows) - 1, -1, -1)
    for y, row in zip(heights, rows, strict=True):
        axes.plot(row.far, [y, y], color="0.6", linewidth=2, zorder=2)
        axes.plot(row.near, [y, y], color=COLOURS[0], linewidth=5, zorder=3)
        axes.plot([row.difference], [y], "o", color="white", markeredgecolor="black", markersize=6, zorder=4)
        dots = axes.plot(row.repetitions, [y - 0.28] * len(row.repetitions), ".", color="0.35", markersize=4, zorder=4)
    axes.set_yticks(heights, [shorten(row.name, LONGEST) for row in rows])
    axes.set(xlabel=fill(axis, 80), ylim=(-0.7, len(rows) - 0.3))
    axes.set_title(fill(title, 90), fontsize=10)
    axes.grid(axis="x", color="0.9")
    handles = [axes.lines[1], axes.lines[2], axes.patches[0], *(dots if rows[-1].repetitions else ())]
    labels = ["95 % interval, unseen classes", "these test classes", f"within ±{margin:g} points", "one repetition"]
    figure.tight_layout(rect=(0, 0.42 / figure.get_size_inches()[1], 1, 1))
    figure.legend(handles, labels[: len(handles)], loc="lower center", ncols=4, fontsize=8, frameon=False)
    return figure
