"""Pictures of a learned metric: its matrix and the columns' shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from similis.figures.canvas import COLOURS, new_figure, shorten
from similis.values import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.floating[Any]]
MOST_NAMES = 40  # names on an axis that can still be read
MOST_BARS = 25


def draw_matrix(metric: Array, names: Sequence[str]) -> Figure:
    """The matrix (D, D) for columns in standard deviations, blue (negative) and red (positive), with their names.

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
        axes.set_xticks(range(len(names)), [shorten(name) for name in names], rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), [shorten(name) for name in names], fontsize=8)
    axes.set_title("The matrix of the metric, columns in standard deviations", fontsize=11)
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
    figure.set_layout_engine("tight")
    return figure


def draw_importances(shares: Mapping[str, float]) -> Figure:
    """Shares of the columns as bars, largest on top; the rest is added up in one bar.

    Example:
        >>> draw_importances({"height": 0.7, "width": 0.3}).axes[0].get_xlabel()
        'share of the squared distance, %'
    """
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    cut = MOST_BARS if len(ordered) <= MOST_BARS else MOST_BARS - 1
    shown, rest = ordered[:cut], ordered[cut:]
    if rest:
        shown.append((f"{len(rest)} others", sum(value for _, value in rest)))
    figure = new_figure(6.5, 1.2 + 0.27 * len(shown))
    axes = figure.add_subplot()
    values = [100.0 * value for _, value in shown]
    bars = axes.barh(range(len(shown)), values, color=COLOURS[0])
    axes.set_yticks(range(len(shown)), [shorten(name) for name, _ in shown], fontsize=8)
    axes.invert_yaxis()
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    axes.set_xlim(0, 1.12 * max(values, default=1.0))
    axes.set_xlabel("share of the squared distance, %")
    axes.spines[["top", "right"]].set_visible(False)
    figure.set_layout_engine("tight")
    return figure
