"""A blank figure: matplotlib without its global state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from similis.values import import_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by most colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def new_figure(width: float = 6.0, height: float = 6.0) -> Figure:
    """An empty figure of that size in inches, drawn off screen.

    Example:
        >>> tuple(float(x) for x in new_figure(3.0, 2.0).get_size_inches())
        (3.0, 2.0)
    """
    figure: Figure = import_extra("matplotlib.figure").Figure(figsize=(width, height), dpi=110)
    import_extra("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    return figure
