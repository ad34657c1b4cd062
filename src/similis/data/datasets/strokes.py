"""Generated characters that raw pixels cannot tell apart: place, size, angle and ink vary."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from similis.data.catalogue import register_dataset
from similis.data.datasets.synthetic import as_ppm
from similis.data.manifest import Manifest, from_columns
from similis.data.random_draws import counter_generator
from similis.data.table import Columns
from similis.values import UserError

CORNERS = 5  # of the line that is a character
_SHAPES = 2**63  # the stream of a class's corners; streams below it belong to images


@register_dataset(paper="generated", counts={})
def strokes(*, classes: int = 120, images: int = 10, size: int = 28, seed: int = 0) -> Manifest:
    """Drawn characters: a class is a bent line; place, size, angle, corners, ink and paper vary.

    Ink may be darker or lighter than paper, so that two images of a class have few pixels in common. Every second class
    is test. Images are kept uncompressed in the table: the same arguments give the same bytes.

    Args:
        classes: any number from 2.
        images: images of each class.
        size: side in pixels.
        seed: of classes and images.

    Example:
        >>> m = strokes(classes=4, images=3, size=16)
        >>> len(m), m.class_names[0], m.values("split")[::3]
        (12, 'line 0', ['train', 'test', 'train', 'test'])
    """
    if classes < 2 or images < 1 or size < 8:
        raise UserError(f"strokes takes at least 2 classes, 1 image, size 8; given {classes}, {images}, {size}")
    labels = [label for label in range(classes) for _ in range(images)]
    columns: Columns = {
        "path": [f"class{label:04d}/{row % images:03d}.ppm" for row, label in enumerate(labels)],
        "label": labels,
        "class_name": [f"line {label}" for label in labels],
        "split": ["test" if label % 2 else "train" for label in labels],
        "bytes": [as_ppm(draw_line(label, row % images, size, seed)) for row, label in enumerate(labels)],
    }
    return from_columns("strokes", columns)


def draw_line(label: int, number: int, size: int, seed: int) -> NDArray[np.uint8]:
    """One image (size, size, 3), uint8."""
    corners = counter_generator(seed, _SHAPES + label).uniform(-1, 1, (CORNERS, 2))
    generator = counter_generator(seed, label * 2**32 + number)
    corners = corners + 0.08 * generator.standard_normal(corners.shape)
    turn, scale = generator.uniform(-0.4, 0.4), generator.uniform(0.5, 0.7)
    rotation = scale * np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    corners = corners @ rotation + generator.uniform(-0.25, 0.25, 2)
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    points = np.stack(np.meshgrid(axis, axis), axis=-1)[..., None, :]  # (size, size, 1, 2)
    begin, along = corners[:-1], np.diff(corners, axis=0)
    part = ((points - begin) * along).sum(-1) / (along**2).sum(-1)
    apart = np.linalg.norm(points - begin - part.clip(0, 1)[..., None] * along, axis=-1).min(-1)
    inked = 1 / (1 + np.exp((apart - 0.09) * size))[..., None]
    paper, ink = generator.uniform(0.6, 1, 3), generator.uniform(0, 0.4, 3)
    noise = 0.1 * (generator.random((size, size, 3)) - 0.5)
    return np.asarray(np.rint((inked * ink + (1 - inked) * paper + noise).clip(0, 1) * 255), dtype=np.uint8)
