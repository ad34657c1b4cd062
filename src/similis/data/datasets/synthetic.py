"""A small generated data set that is always there: shapes, colours and stripes, drawn with numpy."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from similis.data.catalogue import register_dataset
from similis.data.manifest import Manifest, from_columns
from similis.data.random_draws import counter_generator
from similis.data.table import Columns
from similis.values import UserError

Grid = NDArray[np.float64]
SHAPES: dict[str, Callable[[Grid, Grid], Grid]] = {
    "disc": lambda x, y: np.hypot(x, y) - 0.9,
    "square": lambda x, y: np.maximum(abs(x), abs(y)) - 0.8,
    "cross": lambda x, y: np.minimum(np.maximum(abs(x) - 0.3, abs(y) - 0.95), np.maximum(abs(y) - 0.3, abs(x) - 0.95)),
    "ring": lambda x, y: abs(np.hypot(x, y) - 0.7) - 0.22,
    "triangle": lambda x, y: np.maximum(np.maximum(0.87 * x + 0.5 * y, -0.87 * x + 0.5 * y), -y) - 0.5,
    "bar": lambda x, y: np.maximum(abs(x) - 0.35, abs(y) - 1.0),
}
COLOURS = ("red", "yellow", "green", "cyan", "blue", "magenta")
STRIPES = ("plain", "wide", "narrow")


@register_dataset(paper="generated", counts={})
def synthetic(*, classes: int = 32, images: int = 12, size: int = 64, seed: int = 0) -> Manifest:
    """Drawn shapes: a class is a shape, a colour and stripes; place, size, angle and light vary.

    Every second class is test, so that what was learned is asked about unseen combinations. Images
    are kept uncompressed in the table: the same arguments give the same bytes.

    Args:
        classes: at most 108.
        images: images of each class.
        size: side in pixels.
        seed: of places, sizes, angles and noise.

    Example:
        >>> m = synthetic(classes=4, images=3, size=16)
        >>> len(m), m.class_names[0], m.values("split")[::3]
        (12, 'plain red disc', ['train', 'test', 'train', 'test'])
    """
    most = len(SHAPES) * len(COLOURS) * len(STRIPES)
    if not 2 <= classes <= most or images < 1 or size < 8:
        raise UserError(
            f"synthetic takes 2 to {most} classes, at least 1 image, size at least 8; given {classes}, {images}, {size}"
        )
    labels = [label for label in range(classes) for _ in range(images)]
    columns: Columns = {
        "path": [f"class{label:03d}/{row % images:03d}.ppm" for row, label in enumerate(labels)],
        "label": labels,
        "class_name": [" ".join(parts_of(label)) for label in labels],
        "super_class": [parts_of(label)[2] for label in labels],
        "split": ["test" if label % 2 else "train" for label in labels],
        "bytes": [as_ppm(draw(label, row % images, size, seed)) for row, label in enumerate(labels)],
    }
    return from_columns("synthetic", columns)


def parts_of(label: int) -> tuple[str, str, str]:
    """Stripes, colour and shape of a class; even and odd labels meet all shapes and all colours."""
    place = label * 35 % (len(SHAPES) * len(COLOURS) * len(STRIPES))  # 35 and 108 share no divisor: no class twice
    rest, stripes = divmod(place, len(STRIPES))
    shape, colour = divmod(rest, len(COLOURS))
    return STRIPES[stripes], COLOURS[colour], list(SHAPES)[shape]


def draw(label: int, number: int, size: int, seed: int) -> NDArray[np.uint8]:
    """One image (size, size, 3), uint8."""
    stripes, colour, shape = parts_of(label)
    generator = counter_generator(seed, label * 2**32 + number)
    x0, y0, radius, angle, light, hue, ground = generator.random(7)
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    x, y = np.meshgrid(axis - 0.5 * (x0 - 0.5), axis - 0.5 * (y0 - 0.5))
    scale, turn = 0.45 + 0.3 * radius, 2 * math.pi * angle
    across = (x * math.cos(turn) + y * math.sin(turn)) / scale
    along = (y * math.cos(turn) - x * math.sin(turn)) / scale
    inside = 1 / (1 + np.exp(SHAPES[shape](across, along) * scale * size / 2))
    waves = {"plain": 1.0, "wide": np.sin(7 * across), "narrow": np.sin(15 * across)}[stripes]
    paint = np.array(colorsys.hsv_to_rgb((COLOURS.index(colour) + 0.3 * hue) / 6 % 1, 0.9, 0.7 + 0.3 * light))
    body = paint * (0.7 + 0.3 * np.sign(waves) * np.ones_like(across))[..., None]
    canvas = 0.25 + 0.5 * ground + 0.12 * (generator.random((size, size, 3)) - 0.5)
    mixed = inside[..., None] * body + (1 - inside[..., None]) * canvas
    return np.asarray(np.rint(mixed.clip(0, 1) * 255), dtype=np.uint8)


def as_ppm(image: NDArray[np.uint8]) -> bytes:
    """The image as an uncompressed PPM file: the same bytes with every version of every library."""
    height, width, _ = image.shape
    return f"P6 {width} {height} 255\n".encode() + image.tobytes()
