"""What every figure shares: a canvas without global state, colours, texts that fit, saving."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from similis.values import import_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

# The palette of Okabe and Ito, which most colour-blind readers can distinguish.
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


def ink() -> str:
    """The colour of words in the scheme that figures are drawn in."""
    return str(import_extra("matplotlib").rcParams["text.color"])


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure, in the format of the file's ending, and make the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def shorten(text: str, most: int = 24) -> str:
    """A text of at most that many characters.

    Example:
        >>> shorten("embedding", 6)
        'embed…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def shrink_to_fit(figure: Figure, text: Text, height: float = 0.1) -> None:
    """Make a text smaller until it fits the figure's width and its own share of the height."""
    width, tall = figure.get_size_inches() * figure.dpi
    for _ in range(20):  # widths of letters are rounded to pixels: not quite proportional to the size
        box = text.get_window_extent()
        if box.width <= 0.95 * width and box.height <= height * tall:
            return
        text.set_fontsize(float(text.get_fontsize()) * 0.95)
