"""Photos of four drawn things that a network with random weights tells apart by their colours."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import similis
from similis.model.bundle import make_thumbnail
from similis.model.verification import Threshold

KINDS = {  # colours of the left, the middle and the right
    "oat milk": ((30, 60, 200), (235, 240, 250), (30, 60, 200)),
    "tomato": ((220, 30, 20), (220, 30, 20), (30, 140, 40)),
    "lemon": ((250, 225, 40), (250, 225, 40), (250, 225, 40)),
    "<b>ink</b>": ((10, 10, 10), (90, 20, 120), (10, 10, 10)),  # a label is text, whatever it holds
}
EACH = 6


def draw(kind: str, seed: int, side: int = 120) -> Image.Image:
    """One photo of a thing: three bands, shifted and noisy by the seed."""
    noise = np.random.default_rng(seed)
    image = Image.new("RGB", (side, side), KINDS[kind][0])
    pen = ImageDraw.Draw(image)
    for band in (1, 2):
        left = side * band / 3 + noise.integers(-side // 20, side // 20 + 1)
        pen.rectangle((left, 0, side, side), fill=KINDS[kind][band])
    pixels = np.asarray(image, np.int16) + noise.integers(-12, 13, (side, side, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def beside(left: str, right: str, *, height: int = 120, turned: bool = False) -> bytes:
    """A JPEG with one thing on its left half and another on its right; turned: stored on its side, EXIF says so."""
    image = Image.new("RGB", (2 * height, height))
    image.paste(draw(left, 90, height), (0, 0))
    image.paste(draw(right, 91, height), (height, 0))
    exif = Image.Exif()
    if turned:
        exif[0x0112] = 6  # to be shown after a quarter turn clockwise
        image = image.transpose(Image.Transpose.ROTATE_90)
    return encode(image, "JPEG", exif)


def encode(image: Image.Image, format: str = "PNG", exif: Image.Exif | None = None) -> bytes:
    """The bytes of a file."""
    file = io.BytesIO()
    image.save(file, format, **({"exif": exif} if exif else {}))
    return file.getvalue()


def save_collection(folder: Path, *, each: int = EACH) -> Path:
    """A model with random weights and the photos of all things as its gallery; each=0 leaves it empty."""
    model = similis.pretrained("small_conv", weights=None, size=32, device="cpu")
    photos = {f"{kind}/{seed}": encode(draw(kind, seed)) for kind in KINDS for seed in range(each)}
    if photos:
        model.add(list(photos.values()), [name.rpartition("/")[0] for name in photos], list(photos))
        value = model.threshold(far=0.01)
        model.chosen = Threshold(0.01, value, value, value, tuple(KINDS), "gallery", "")
    return model.save(folder, thumbnails={name: make_thumbnail(photo) for name, photo in photos.items()})
