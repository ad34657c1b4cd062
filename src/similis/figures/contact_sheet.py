"""Contact sheets: a query in each row, its neighbours beside it, right ones framed green and wrong ones red."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from similis.figures.canvas import new_figure, shorten, shrink_to_fit
from similis.values import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Pixels = NDArray[np.uint8]
RIGHT, WRONG, QUERY = (0, 145, 80), (213, 40, 40), (60, 60, 60)
FRAME, GAP, LINE, WIDE = 5, 6, 30, 22  # pixels: frame, between tiles, for the captions, behind the query
INCH = 110
LEAST_WIDTH = 600  # in which a title can be read
MOST_ROWS, MOST_COLUMNS = 30, 17  # of a sheet: about 4,600 by 2,200 pixels at the usual side


@dataclass(frozen=True)
class Tile:
    """An image (H, W, 3) with one or two lines below it, and whether it is right; None for a query or an unknown.

    ``beside`` holds more images for the same frame, which the lines are about as well.
    """

    image: Pixels
    caption: str
    right: bool | None = None
    beside: Sequence[Pixels] = ()


def draw_sheet(rows: Sequence[Sequence[Tile]], *, side: int = 112, title: str = "", queries: bool = True) -> Figure:
    """One row of tiles for each query, the query first; what is too much for a sheet is left out, and it says so.

    Args:
        rows: tiles; rows may have different lengths.
        side: of an image on the sheet, in pixels; images are scaled to fit and keep their shape.
        title: above the sheet.
        queries: whether the first tile of a row is a query and stands apart.

    Example:
        >>> import numpy as np
        >>> grey = np.full((4, 4, 3), 128, dtype=np.uint8)
        >>> figure = draw_sheet([[Tile(grey, "cat"), Tile(grey, "cat 0.93", right=True)]])
        >>> len(figure.axes[0].texts)
        2
    """
    if not rows or not all(rows):
        raise UserError("a contact sheet needs at least one row, and a query in each")
    title = " ".join(filter(None, [title, left_out(rows)]))
    rows = [row[:MOST_COLUMNS] for row in rows[:MOST_ROWS]]
    columns = max(len(row) for row in rows)
    across = 1 + max(len(tile.beside) for row in rows for tile in row)
    wide, high = across * (side + FRAME) + FRAME, side + 2 * FRAME + LINE + GAP
    head, apart = 34 if title else 8, WIDE if queries else 0
    width = max(columns * (wide + GAP) + GAP + apart, LEAST_WIDTH if title else 0)
    height = len(rows) * high + head
    paper = np.full((height, width, 3), 255, dtype=np.uint8)
    figure = new_figure(width / INCH, height / INCH)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    for line, row in enumerate(rows):
        for column, tile in enumerate(row):
            left = GAP + column * (wide + GAP) + (apart if column else 0)
            end, below = place_tile(paper, tile, (head + line * high, left), side)
            draw_caption(axes, tile, ((left + end) / 2, below + 3), wide)
    axes.imshow(paper, interpolation="nearest", extent=(0, width, height, 0))
    if title:
        shrink_to_fit(figure, figure.text(0.5, 1 - 17 / height, title, ha="center", va="center", fontsize=9.5))
    return figure


def place_tile(paper: Pixels, tile: Tile, corner: tuple[int, int], side: int) -> tuple[int, int]:
    """Frame the images of a tile from its upper left corner on; returns its right and its lower end."""
    (top, left), images = corner, (tile.image, *tile.beside)
    end, below = left + len(images) * (side + FRAME) + FRAME, top + side + 2 * FRAME
    paper[top:below, left:end] = colour_of(tile)
    for number, image in enumerate(images):
        start = left + FRAME + number * (side + FRAME)
        paper[top + FRAME : below - FRAME, start : start + side] = fit_square(image, side)
    return end, below


def left_out(rows: Sequence[Sequence[Tile]]) -> str:
    """What a sheet of these rows does not show, in brackets; nothing if it shows all."""
    longest = max(len(row) for row in rows)
    cuts = {"queries": (len(rows), MOST_ROWS), "neighbours": (longest - 1, MOST_COLUMNS - 1)}
    words = [f"the first {most} of {there:,} {what}" for what, (there, most) in cuts.items() if there > most]
    return f"({', '.join(words)})" if words else ""


def colour_of(tile: Tile) -> tuple[int, int, int]:
    """The colour of the frame."""
    return QUERY if tile.right is None else RIGHT if tile.right else WRONG


def draw_caption(axes: Axes, tile: Tile, place: tuple[float, float], width: int) -> None:
    """Lines below a tile, cut where the next tile begins; right and wrong are marked without colour too."""
    mark = "" if tile.right is None else "✓ " if tile.right else "✗ "
    lines = [shorten(line, width // 6) for line in (mark + tile.caption).splitlines()]
    colour = tuple(part / 255 for part in colour_of(tile))
    size = 7.5 if tile.beside else 6.5
    axes.text(*place, "\n".join(lines), ha="center", va="top", fontsize=size, color=colour, linespacing=1.15)


def fit_square(image: Pixels, side: int) -> Pixels:
    """The image scaled into a white square, by averaging when it shrinks.

    Example:
        >>> fit_square(np.zeros((2, 4, 3), dtype=np.uint8), 8)[:, 0, 0].tolist()
        [255, 255, 0, 0, 0, 0, 255, 255]
    """
    from PIL import Image, ImageOps

    return np.asarray(
        ImageOps.pad(Image.fromarray(np.asarray(image)), (side, side), Image.Resampling.BILINEAR, "white")
    )
