"""What only the drawings of the documentation share: a grid of panels, and colours for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib

from similis.figures.canvas import new_figure


def new_grid(number: int, columns: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """A figure with that many panels, each of that size in inches, and its panels in the order of reading."""
    rows = -(-number // columns)
    figure = new_figure(columns * width, rows * height)
    panels = [figure.add_subplot(rows, columns, place + 1) for place in range(number)]
    figure.set_layout_engine("constrained")
    return figure, panels


@contextmanager
def colour_scheme(*, dark: bool) -> Iterator[None]:
    """Draw and save figures for a light or a dark page; equal figures are equal bytes."""
    page, ink = ("#0d1117", "#e6edf3") if dark else ("#ffffff", "#1f2328")
    parts = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "legend.labelcolor")
    faces = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), page)
    with matplotlib.rc_context(faces | dict.fromkeys(parts, ink) | {"svg.hashsalt": "similis"}):
        yield
