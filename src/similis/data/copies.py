"""Copies as they are found in the wild: cut, mirrored, compressed again; and the small grey images that betray them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.data.images import to_rgb, upright
from similis.data.manifest import Manifest
from similis.values import import_extra

SIDE = 64  # pixels of a small image
AREA = 0.8  # smallest share of the area that a copy keeps
QUALITY = 40  # of its JPEG


def make_copy(image: Any, generator: np.random.Generator) -> Any:
    """An image of Pillow's with 80 to 100 % of the area, mirrored half of the time, compressed at quality 40."""
    pillow = import_extra("PIL.Image")
    scale = generator.uniform(AREA, 1.0) ** 0.5
    wide, high = (max(1, round(scale * side)) for side in image.size)
    left, top = generator.integers(image.width - wide + 1), generator.integers(image.height - high + 1)
    cut = image.crop((left, top, left + wide, top + high))
    if generator.random() < 0.5:
        cut = cut.transpose(pillow.Transpose.FLIP_LEFT_RIGHT)
    stored = io.BytesIO()
    cut.save(stored, "JPEG", quality=QUALITY)
    return to_rgb(pillow.open(stored))


def open_image(manifest: Manifest, row: int) -> Any:
    """The image of a row, an upright RGB image of Pillow's."""
    return upright(import_extra("PIL.Image").open(io.BytesIO(manifest.read_bytes(row))))


def small_grey(image: Any) -> Tensor:
    """The image squeezed into a square, grey, (64, 64), 0 to 1."""
    return torch.from_numpy(np.asarray(image.convert("L").resize((SIDE, SIDE)), dtype=np.float32) / 255)
