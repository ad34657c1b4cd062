"""The critical-difference diagram: mean ranks on a line, bars over what is not told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from similis.figures.canvas import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def critical_difference(names: Sequence[str], ranks: Sequence[float], critical: float, title: str = "") -> Figure:
    """Losses at their mean ranks, the best at the left; a bar joins those that lie within the critical difference.

    Args:
        names: of the losses.
        ranks: their mean ranks, 1 is best.
        critical: ranks further apart than this differ.
        title: what was ranked, over which blocks.

    Reference: Demsar: Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 2006.

    Example:
        >>> figure = critical_difference(["a", "b", "c"], [1.2, 1.9, 2.9], 0.8)
        >>> len(figure.axes)
        1
    """
    order = sorted(range(len(names)), key=lambda i: ranks[i])
    bars = cliques([ranks[i] for i in order], critical)
    half = (len(order) + 1) // 2
    height = 1.5 + 0.28 * half + 0.16 * len(bars)
    figure = new_figure(8.5, height)
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.9 if title else 0.96))
    low, high = 1.0, float(max(len(names), 2))
    rows = 1.2 + 0.45 * len(bars)
    scale(axes, low, high, critical)
    for number, (first, last) in enumerate(bars):
        y = -0.45 - 0.45 * number
        axes.plot([ranks[order[first]] - 0.04, ranks[order[last]] + 0.04], [y, y], color=COLOURS[0], linewidth=5)
    margin = 0.16 * (high - low)
    for place, i in enumerate(order):
        left = place < half
        y = -rows - 0.8 * (place if left else len(order) - 1 - place)
        end = low - margin if left else high + margin
        axes.plot([ranks[i], ranks[i], end], [0, y, y], color="0.35", linewidth=0.9)
        axes.text(end, y, f" {names[i]}  {ranks[i]:.2f} ", ha="right" if left else "left", va="center", fontsize=9)
    axes.set(xlim=(low - 3.6 * margin, high + 3.6 * margin), ylim=(-rows - 0.8 * half + 0.2, 2.2))
    axes.set_axis_off()
    if title:
        figure.suptitle(title, fontsize=10, y=0.985)
    return figure


def scale(axes: Axes, low: float, high: float, critical: float) -> None:
    """The line of ranks, and the length of the critical difference above it."""
    axes.plot([low, high], [0, 0], color="black", linewidth=1.2)
    step = max(1, round((high - low) / 12))
    for rank in range(int(low), int(high) + 1, step):
        axes.plot([rank, rank], [0, 0.18], color="black", linewidth=1)
        axes.text(rank, 0.3, str(rank), ha="center", va="bottom", fontsize=8)
    axes.plot([low, low + critical], [1.25, 1.25], color="black", linewidth=1.6)
    for end in (low, low + critical):
        axes.plot([end, end], [1.13, 1.37], color="black", linewidth=1.6)
    axes.text(low, 1.45, f"critical difference {critical:.2f}", ha="left", va="bottom", fontsize=8)


def cliques(ranks: Sequence[float], critical: float) -> list[tuple[int, int]]:
    """First and last place of every longest run of sorted ranks within the critical difference.

    Example:
        >>> cliques([1.0, 1.5, 2.0, 4.0], 0.8)
        [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(i for i in range(len(ranks)) if ranks[i] - ranks[first] <= critical)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found
