"""Pictures of a learned metric: its matrix, the columns' shares, a map of the rows, and XOR before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from similis.figures.canvas import COLOURS, new_figure
from similis.values import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]
MARKERS = "os^Dv"
MOST_NAMES = 40  # names on an axis that can still be read


def draw_matrix(metric: Array, names: Sequence[str], *, title: str = "The matrix of the metric") -> Figure:
    """The matrix A (D, D) in blue (negative) and red (positive) around white, with the columns' names.

    Example:
        >>> len(draw_matrix(np.eye(2), ["height", "width"]).axes)
        2
    """
    if metric.shape != (len(names), len(names)):
        raise UserError(f"the matrix has shape {metric.shape} for {len(names)} names; pass one name for each column")
    side = 3.2 + 0.17 * min(len(names), MOST_NAMES)
    figure = new_figure(side + 1.0, side)
    axes = figure.add_subplot()
    limit = float(np.abs(metric).max()) or 1.0
    image = axes.imshow(metric, cmap="RdBu_r", vmin=-limit, vmax=limit)
    if len(names) <= MOST_NAMES:
        axes.set_xticks(range(len(names)), [shortened(name) for name in names], rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), [shortened(name) for name in names], fontsize=8)
    axes.set_title(title, fontsize=11)
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
    figure.set_layout_engine("tight")
    return figure


def draw_importances(shares: Mapping[str, float], *, most: int = 25) -> Figure:
    """Shares of the columns as bars, largest on top; the rest is added up in one bar.

    Example:
        >>> draw_importances({"height": 0.7, "width": 0.3}).axes[0].get_xlabel()
        'share of the squared distance, %'
    """
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    shown = ordered if len(ordered) <= most else [
        *ordered[: most - 1], (f"{len(ordered) - most + 1} others", sum(v for _, v in ordered[most - 1 :]))
    ]  # fmt: skip
    figure = new_figure(6.5, 1.2 + 0.27 * len(shown))
    axes = figure.add_subplot()
    values = [100.0 * value for _, value in shown]
    axes.barh(range(len(shown)), values, color=COLOURS[0])
    axes.set_yticks(range(len(shown)), [shortened(name) for name, _ in shown], fontsize=8)
    axes.invert_yaxis()
    for place, value in enumerate(values):
        axes.annotate(
            f"{value:.1f}", (value, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_xlim(0, 1.12 * max(values, default=1.0))
    axes.set_xlabel("share of the squared distance, %")
    axes.spines[["top", "right"]].set_visible(False)
    figure.set_layout_engine("tight")
    return figure


def draw_map(points: Array, labels: Sequence[Any], *, title: str = "") -> Figure:
    """Rows as points (n, 2) in the colours of their classes.

    Example:
        >>> len(draw_map(np.zeros((2, 2)), ["a", "b"]).axes[0].collections)
        2
    """
    figure = new_figure(6.5, 5.2)
    axes = figure.add_subplot()
    scatter(axes, points, labels)
    axes.set_title(title, fontsize=11)
    legend_outside(axes)
    figure.set_layout_engine("tight")
    return figure


def draw_before_after(panels: Mapping[str, Array], labels: Sequence[Any]) -> Figure:
    """The same rows under several metrics side by side: title -> points (n, 2).

    Example:
        >>> len(draw_before_after({"raw": np.zeros((2, 2)), "learned": np.eye(2)}, [0, 1]).axes)
        2
    """
    figure = new_figure(3.6 * len(panels), 3.9)
    for number, (title, points) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), number + 1)
        scatter(axes, points, labels)
        axes.set_title(title, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    figure.set_layout_engine("tight")
    return figure


def scatter(axes: Axes, points: Array, labels: Sequence[Any]) -> None:
    """Points by class; colours and markers repeat out of step, so that thirty classes stay apart."""
    named = np.asarray([str(label) for label in labels])
    for number, label in enumerate(dict.fromkeys(sorted(named.tolist()))):
        own = points[named == label]
        axes.scatter(
            own[:, 0], own[:, 1], s=22, color=COLOURS[number % len(COLOURS)], marker=MARKERS[number % len(MARKERS)],
            edgecolor="white", linewidth=0.4, label=shortened(label), alpha=0.9,
        )  # fmt: skip
    axes.set_aspect("equal", adjustable="datalim")  # lengths mean distances in every direction
    axes.spines[["top", "right"]].set_visible(False)


def legend_outside(axes: Axes) -> None:
    """The classes beside the picture, unless there are too many to read."""
    if len(axes.collections) <= 30:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)


def save(figure: Figure, place: Path) -> Path:
    """Write a picture; folders above it are made."""
    place.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(place)
    return place


def shortened(name: str, most: int = 24) -> str:
    """A name that fits beside an axis."""
    return name if len(name) <= most else name[: most - 1] + "…"
