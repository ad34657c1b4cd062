"""Pictures of a tournament: recall by loss, size and network, learning curves, cost against quality, classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from similis.figures.canvas import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")
RECALL = "R@1 on the test classes, %"


def line_style(number: int) -> tuple[str, str, str]:
    """Colour, marker and dash of the n-th line; marker and dash differ for black-and-white print."""
    return COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], DASHES[number // len(COLOURS) % len(DASHES)]


def draw_recall_by_loss(rows: Sequence[tuple[str, float, float, float, Sequence[float]]], title: str) -> Figure:
    """One line for each loss: every seed, the mean, both intervals; best on top.

    Args:
        rows: name, mean, half width for these test classes, half width for unseen classes, value of each seed; in per
            cent, the best first.
        title: of the figure.
    """
    figure = new_figure(8.5, 1.5 + 0.34 * len(rows))
    axes = figure.add_subplot()
    heights = range(len(rows) - 1, -1, -1)
    for y, (_, mean, near, far, seeds) in zip(heights, rows, strict=True):
        axes.plot([mean - far, mean + far], [y, y], color="0.75", linewidth=2)
        axes.plot([mean - near, mean + near], [y, y], color=COLOURS[0], linewidth=5)
        axes.scatter(seeds, [y] * len(seeds), s=16, color="white", edgecolor="black", linewidth=0.7, zorder=3)
    axes.set_yticks(heights, [row[0] for row in rows])
    axes.set(xlabel=RECALL, ylim=(-0.7, len(rows) - 0.3))
    axes.set_title(title, fontsize=10)
    handles = [*axes.lines[:2], axes.collections[0]]
    labels = ["95 % interval for unseen classes", "95 % interval for these test classes", "one seed"]
    figure.tight_layout(rect=(0, 0.42 / figure.get_size_inches()[1], 1, 1))
    figure.legend(handles, labels, loc="lower center", ncols=3, fontsize=8, frameon=False)
    axes.grid(axis="x", color="0.9")
    return figure


def draw_recall_lines(lines: Mapping[str, Mapping[str, float]], title: str, axis: str) -> Figure:
    """A line for each loss over embedding sizes or networks; ``lines`` is loss -> (size or network -> per cent)."""
    places = list(dict.fromkeys(place for line in lines.values() for place in line))
    figure, axes = new_axes(title, axis, RECALL)
    for number, (name, line) in enumerate(lines.items()):
        draw_line(axes, number, name, [places.index(place) for place in line], list(line.values()))
    axes.set_xticks(range(len(places)), places)
    return place_legend(figure, axes)


def draw_learning_curves(curves: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Validation R@1 after every epoch, mean over seeds; ``curves`` is loss -> per cent after each epoch."""
    figure, axes = new_axes(title, "epoch", "R@1 on the validation classes, %")
    for number, (name, values) in enumerate(curves.items()):
        draw_line(axes, number, name, range(1, len(values) + 1), values)
    axes.locator_params(axis="x", integer=True)
    return place_legend(figure, axes)


def draw_cost(rows: Sequence[tuple[str, float, float]], title: str) -> Figure:
    """Recall against the time of a run; ``rows`` are name, seconds, per cent."""
    figure, axes = new_axes(title, "seconds of training steps, one run", RECALL)
    for number, (name, seconds, recall) in enumerate(rows):
        draw_line(axes, number, name, [seconds], [recall])
    return place_legend(figure, axes)


def draw_class_wins(rows: Sequence[tuple[str, float, object]], title: str, axis: str) -> Figure:
    """Classes on which two losses differ most, each with a photo.

    Args:
        rows: class name, difference in points, photo (H, W, 3) or None.
        title: of the figure.
        axis: which loss is ahead to the right.
    """
    figure = new_figure(8.5, 1.3 + 0.52 * len(rows))
    axes = figure.add_axes((0.42, 0.16 if len(rows) < 8 else 0.1, 0.55, 0.74 if len(rows) < 8 else 0.82))
    axes.set(yticks=[], ylim=(-0.6, len(rows) - 0.4), xlabel=axis)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    for y, (name, points, photo) in enumerate(reversed(rows)):
        axes.barh([y], [points], color=COLOURS[0] if points > 0 else COLOURS[1], height=0.6)
        height = figure.transFigure.inverted().transform((0, axes.transData.transform((0, y))[1]))[1]
        size = 0.42 / figure.get_size_inches()[1]
        if photo is not None:
            small = figure.add_axes((0.35, height - size / 2, 0.06, size))
            small.imshow(photo)  # type: ignore[arg-type]
            small.set_axis_off()
        figure.text(0.34, height, name, ha="right", va="center", fontsize=9)
    figure.suptitle(title, fontsize=10)
    return figure


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
