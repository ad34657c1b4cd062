"""Two images side by side, lit where they are similar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from similis.figures.canvas import new_figure, shorten, shrink_to_fit
from similis.values import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pixels = NDArray[np.uint8]
DARK = 0.35  # of a place that has no part in the similarity


def draw_explanation(images: Pixels, parts: Tensor, *, names: Sequence[str], title: str = "") -> Figure:
    """Two images above, and below them the same with all places dimmed that have no part in their similarity.

    Args:
        images: (2, S, S, 3), uint8.
        parts: (2, h, w), see :func:`similis.networks.explanation.similarity_maps`.
        names: below the images.
        title: above them.

    Example:
        >>> grey = np.full((2, 8, 8, 3), 128, dtype=np.uint8)
        >>> len(draw_explanation(grey, torch.rand(2, 2, 2), names=("a", "b")).axes)
        4
    """
    if images.ndim != 4 or len(images) != 2 or parts.ndim != 3 or len(parts) != 2:
        raise UserError(f"images {images.shape} and parts {tuple(parts.shape)} given; give (2, S, S, 3) and (2, h, w)")
    figure = new_figure(6.0, 6.4)
    for column, (image, part, name) in enumerate(zip(images, parts, names, strict=True)):
        for row, shown in enumerate((image, dim(image, part))):
            axes = figure.add_subplot(2, 2, 2 * row + column + 1)
            axes.imshow(shown)
            axes.set_axis_off()
            if row == 0:
                axes.set_title(shorten(name, 40), fontsize=9)
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.9, wspace=0.02, hspace=0.02)
    shrink_to_fit(figure, figure.suptitle(title, fontsize=11), 0.05)
    return figure


def dim(image: Pixels, part: Tensor) -> Pixels:
    """The image, darker where its part is smaller; negative parts are darkest, the largest has full light."""
    side = image.shape[:2]
    smooth = functional.interpolate(part[None, None].float(), side, mode="bicubic", align_corners=False)[0, 0]
    light = smooth.clamp(min=0)
    light = light / light.max().clamp(min=torch.finfo(torch.float32).tiny)
    scaled = image * (DARK + (1 - DARK) * light.numpy()[..., None])
    return np.rint(scaled).clip(0, 255).astype(np.uint8)
