"""Kinds of an index in one picture: what each finds against the bytes it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from similis.figures.recall_plots import draw_line, new_axes, place_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_index_kinds(
    rows: Sequence[tuple[str, float, float]], target: tuple[float, float | None], title: str
) -> Figure:
    """Recall@10 against bytes for each vector.

    Args:
        rows: kind, bytes for each vector, recall@10.
        target: recall@10, and the most bytes for each vector (None for any).
        title: of the figure.
    """
    figure, axes = new_axes(title, "bytes searched through for each vector", "recall@10 against exact search")
    axes.set_xscale("log")
    for number, (kind, size, recall) in enumerate(rows):
        draw_line(axes, number, kind, [size], [recall])
    axes.axhline(target[0], color="0.5", linewidth=1, label=f"target: recall {target[0]:g}")
    if target[1] is not None:
        axes.axvline(target[1], color="0.5", linewidth=1, linestyle="--", label=f"target: {target[1]:,.0f} bytes")
    return place_legend(figure, axes)
