"""Pictures of a tournament: recall by loss, size and network, learning curves, cost against quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from similis.figures.canvas import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")


def style(number: int) -> tuple[str, str, str]:
    """Colour, marker and dash of the n-th line: told apart without colour too."""
    return COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], DASHES[number // len(COLOURS) % len(DASHES)]


def recall_by_loss(
    rows: Sequence[tuple[str, float, float, float, Sequence[float]]],
    title: str,
    axis: str = "R@1 on the test classes, %",
) -> Figure:
    """One line for each loss: every seed, the mean, both intervals; best on top.

    Args:
        rows: name, mean, half width on these classes, half width on new classes, value of each seed; in per cent.
        title: of the figure.
        axis: what is measured.
    """
    figure = new_figure(8.5, 1.5 + 0.34 * len(rows))
    axes = figure.add_subplot()
    for y, (_, mean, near, far, seeds) in enumerate(reversed(rows)):
        axes.plot(
            [mean - far, mean + far], [y, y], color="0.75", linewidth=2, label="95 %, new classes" if not y else None
        )
        axes.plot(
            [mean - near, mean + near],
            [y, y],
            color=COLOURS[0],
            linewidth=5,
            label="95 %, these classes" if not y else None,
        )
        axes.scatter(seeds, [y] * len(seeds), s=16, color="white", edgecolor="black", linewidth=0.7, zorder=3,
                     label="one seed" if not y else None)  # fmt: skip
    axes.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
    axes.set_xlabel(axis)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.grid(axis="x", color="0.9")
    finish(figure, axes, title, columns=3)
    return figure


def recall_by(
    lines: Mapping[str, Mapping[str, float]], title: str, axis: str, value: str = "R@1 on the test classes, %"
) -> Figure:
    """A line for each loss over embedding sizes or networks.

    Args:
        lines: loss -> (size or network -> mean in per cent).
        title: of the figure.
        axis: what the places are.
        value: what is measured.
    """
    places = list(dict.fromkeys(place for line in lines.values() for place in line))
    figure = new_figure(8.5, 5.2)
    axes = figure.add_subplot()
    for number, (name, line) in enumerate(lines.items()):
        colour, marker, dash = style(number)
        xs = [places.index(place) for place in line]
        axes.plot(xs, list(line.values()), color=colour, marker=marker, linestyle=dash, label=name)
    axes.set_xticks(range(len(places)), places)
    axes.set(xlabel=axis, ylabel=value)
    axes.grid(color="0.9")
    beside(figure, axes, title)
    return figure


def learning_curves(curves: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Validation R@1 after every epoch, mean over seeds.

    Args:
        curves: loss -> per cent after epoch 1, 2, ...
        title: of the figure.
    """
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(8.5, 4.8)
    axes = figure.add_subplot()
    for number, (name, values) in enumerate(curves.items()):
        colour, marker, dash = style(number)
        axes.plot(
            range(1, len(values) + 1), values, color=colour, marker=marker, markersize=4, linestyle=dash, label=name
        )
    axes.set(xlabel="epoch", ylabel="R@1 on the validation classes, %")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color="0.9")
    beside(figure, axes, title)
    return figure


def cost_and_quality(rows: Sequence[tuple[str, float, float]], title: str) -> Figure:
    """Recall against the time of a run.

    Args:
        rows: name, seconds, per cent.
        title: of the figure.
    """
    figure = new_figure(8.5, 4.8)
    axes = figure.add_subplot()
    for number, (name, seconds, recall) in enumerate(rows):
        colour, marker, _ = style(number)
        axes.scatter([seconds], [recall], color=colour, marker=marker, s=55, label=name)
    axes.set(xlabel="seconds of training steps, one run", ylabel="R@1 on the test classes, %")
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    beside(figure, axes, title)
    return figure


def class_wins(rows: Sequence[tuple[str, float, object]], title: str, axis: str) -> Figure:
    """Classes on which two losses differ most, each with a photo.

    Args:
        rows: class name, difference in points, photo (H, W, 3) or None.
        title: of the figure.
        axis: which loss is ahead to the right.
    """
    figure = new_figure(8.5, 1.3 + 0.52 * len(rows))
    axes = figure.add_axes((0.42, 0.16 if len(rows) < 8 else 0.1, 0.55, 0.74 if len(rows) < 8 else 0.82))
    for y, (_, points, _) in enumerate(reversed(rows)):
        axes.barh([y], [points], color=COLOURS[0] if points > 0 else COLOURS[1], height=0.6)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [""] * len(rows))
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel(axis)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    for y, (name, _, photo) in enumerate(reversed(rows)):
        place = axes.transData.transform((0, y))
        height = figure.transFigure.inverted().transform((0, place[1]))[1]
        size = 0.42 / figure.get_size_inches()[1]
        if photo is not None:
            small = figure.add_axes((0.35, height - size / 2, 0.06, size))
            small.imshow(photo)  # type: ignore[arg-type]
            small.set_axis_off()
        figure.text(0.34, height, name, ha="right", va="center", fontsize=9)
    figure.suptitle(title, fontsize=10)
    return figure


def finish(figure: Figure, axes: Axes, title: str, columns: int) -> None:
    """Title, and a legend below the axes, where no data are."""
    axes.set_title(title, fontsize=10)
    handles, labels = axes.get_legend_handles_labels()
    room = 0.42 / figure.get_size_inches()[1]
    figure.tight_layout(rect=(0, room, 1, 1))
    figure.legend(handles, labels, loc="lower center", ncols=columns, fontsize=8, frameon=False)


def beside(figure: Figure, axes: Axes, title: str) -> None:
    """Title, and a legend right of the axes, where no data are."""
    axes.set_title(title, fontsize=10)
    handles, labels = axes.get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0, 0.78, 1))
    figure.legend(handles, labels, loc="center left", bbox_to_anchor=(0.785, 0.5), fontsize=8, frameon=False)
