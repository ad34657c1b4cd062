"""Recall in pictures: by size and network, progress, against the cost of a run and the bytes of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from similis.figures.canvas import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")
MOST_HIGHLIGHTED = 8
RECALL = "R@1 on the test classes, %"


def line_style(number: int) -> tuple[str, str, str]:
    """Colour, marker and dash of the n-th line; marker and dash differ for black-and-white print."""
    return COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], DASHES[number // len(COLOURS) % len(DASHES)]


def draw_recall_lines(lines: Mapping[str, Mapping[str, float]], title: str, axis: str) -> Figure:
    """A line for each loss over embedding sizes or networks; ``lines`` is loss -> (size or network -> per cent)."""
    places = list(dict.fromkeys(place for line in lines.values() for place in line))
    figure, axes = new_axes(title, axis, RECALL)
    for number, (name, line) in enumerate(lines.items()):
        draw_line(axes, number, name, [places.index(place) for place in line], list(line.values()))
    axes.set_xticks(range(len(places)), places)
    return place_legend(figure, axes)


def draw_recall_by_loss(lines: Mapping[str, Mapping[str, float]], title: str) -> Figure:
    """Dots beside the name of each loss; ``lines`` is cut -> (loss -> per cent), the losses in the order shown."""
    names = list(next(iter(lines.values())))
    figure, axes = new_axes(title, "recall on the test classes, %", "")
    for number, (cut, line) in enumerate(lines.items()):
        colour, marker, _ = line_style(number)
        axes.scatter(list(line.values()), range(len(names)), color=colour, marker=marker, label=cut)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    return place_legend(figure, axes)


def draw_progress(
    curves: Mapping[str, Sequence[float]], title: str, axes_names: tuple[str, str], highlighted: Sequence[str]
) -> Figure:
    """Recall over epochs or trials, the first eight of the highlighted contestants in colour and the others grey.

    Args:
        curves: contestant -> per cent after each epoch or trial; an empty one is left out.
        title: of the figure.
        axes_names: of x and y.
        highlighted: the most important first.
    """
    figure, axes = new_axes(title, *axes_names)
    shown = highlighted[:MOST_HIGHLIGHTED]
    for number, (name, values) in enumerate(curves.items()):  # every contestant has a number: its colour stays
        if values and name in shown:
            draw_line(axes, number, name, range(1, len(values) + 1), values)
    grey = [values for name, values in curves.items() if values and name not in shown]
    for number, values in enumerate(grey):
        label = None if number else f"{len(grey)} other{'s' if len(grey) > 1 else ''}"
        axes.plot(range(1, len(values) + 1), values, color="0.75", linewidth=1, zorder=1, label=label)
    axes.locator_params(axis="x", integer=True)
    return place_legend(figure, axes)


def new_axes(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """A figure with one grid and the names of its axes."""
    figure = new_figure(8.5, 4.8)
    axes = figure.add_subplot()
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=10)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    return figure, axes


def draw_line(axes: Axes, number: int, name: str, x: Sequence[float], y: Sequence[float]) -> None:
    """The n-th line in its own style."""
    colour, marker, dash = line_style(number)
    axes.plot(x, y, color=colour, marker=marker, linestyle=dash, label=name)


def place_legend(figure: Figure, axes: Axes) -> Figure:
    """Put the legend right of the axes, where no data are."""
    figure.tight_layout(rect=(0, 0, 0.78, 1))
    figure.legend(*axes.get_legend_handles_labels(), loc="center left", bbox_to_anchor=(0.785, 0.5), fontsize=8,
                  frameon=False)  # fmt: skip
    return figure
