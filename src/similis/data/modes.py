"""From every mode of Pillow to RGB; the table :data:`MODES` says which rule a mode follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from similis.values import DataError, import_extra

_SIXTEEN_BITS = 2**16 - 1
_REMEDY = "save it with 8 or 16 bits for each channel"


def to_rgb(image: Any) -> Any:
    """An image of any mode as RGB; what is transparent becomes white.

    Args:
        image: of Pillow.

    Example:
        >>> from PIL import Image
        >>> to_rgb(Image.new("I;16", (1, 1), 65535)).getpixel((0, 0))
        (255, 255, 255)
    """
    if image.mode not in MODES:
        raise DataError(f"it has the mode {image.mode!r}, known are {', '.join(MODES)}; save it as RGB")
    return MODES[image.mode](image)


def convert_colours(image: Any) -> Any:
    """The colours as Pillow converts them, from 8 bits to 8 bits; one colour may be declared transparent."""
    if "transparency" in image.info:
        return lay_on_white(image)
    return image if image.mode == "RGB" else image.convert("RGB")


def lay_on_white(image: Any) -> Any:
    """An image with an alpha channel (or a transparent colour), laid on white."""
    straight = image.convert("LA") if image.mode == "La" else image  # Pillow has no direct way from La
    layered = straight.convert("RGBA")
    ground = import_extra("PIL.Image").new("RGBA", layered.size, "white")
    ground.alpha_composite(layered)
    return ground.convert("RGB")


def scale_integers(image: Any) -> Any:
    """Grey values of 16 bits, 0 to 65535, at a 257th of their value: white stays white.

    Mode ``I`` is a 32-bit container without a scale of its own. Its values are taken as 16-bit; those outside
    are an error, and so are those that all fit into 8 bits, unless the file format itself has 16 bits.
    """
    values = np.asarray(image).astype(np.int64)
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > _SIXTEEN_BITS:
        raise DataError(f"its whole numbers lie between {low} and {high}, known are 0 to {_SIXTEEN_BITS}; {_REMEDY}")
    if image.mode == "I" and image.format not in (None, "PNG", "PPM") and 0 < high <= 255:
        raise DataError(f"its 32-bit numbers end at {high} and could be meant as 8 or 16 bits; {_REMEDY}")
    grey = ((values + 128) // 257).astype(np.uint8)
    grey[values == image.info.get("transparency", -1)] = 255
    return import_extra("PIL.Image").fromarray(grey).convert("RGB")


def scale_floats(image: Any) -> Any:
    """Grey values as floating-point numbers between 0 (black) and 1 (white); all others are an error."""
    values = np.asarray(image)
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError(
            f"its floating-point numbers lie between {values.min():g} and {values.max():g}; known are those between "
            f"0 and 1, with 1 for white: scale them, or {_REMEDY}"
        )
    return import_extra("PIL.Image").fromarray(np.rint(values * 255).astype(np.uint8)).convert("RGB")


MODES: Mapping[str, Callable[[Any], Any]] = {
    "1": convert_colours,  # black and white
    "L": convert_colours,  # grey, 8 bits
    "P": convert_colours,  # indices into a palette
    "RGB": convert_colours,
    "RGBX": convert_colours,  # the fourth channel means nothing
    "CMYK": convert_colours,  # ink, without a profile
    "YCbCr": convert_colours,  # as in JPEG
    "LAB": convert_colours,  # by the profiles of Lab and sRGB
    "HSV": convert_colours,
    "LA": lay_on_white,
    "La": lay_on_white,  # premultiplied
    "PA": lay_on_white,
    "RGBA": lay_on_white,
    "RGBa": lay_on_white,  # premultiplied
    "I": scale_integers,
    "I;16": scale_integers,
    "I;16B": scale_integers,
    "I;16L": scale_integers,
    "I;16N": scale_integers,
    "F": scale_floats,
}
