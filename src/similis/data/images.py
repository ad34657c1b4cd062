"""From encoded bytes to an upright RGB array of a known size: the deterministic half of preprocessing."""

from __future__ import annotations

import io
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from similis.data.modes import to_rgb
from similis.values import DataError, SimilisError, import_extra

Pixels = NDArray[np.uint8]
Interpolation = Literal["bilinear", "bicubic"]
_LONGEST = 256  # sides to one: an image of 1 x 60000 pixels would be enlarged to gigabytes
_ORIENTATION = 0x0112  # the EXIF tag
# Its values -> what makes the image upright; 1 is upright already.
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE",
    6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90",
}  # fmt: skip


def prepare(data: bytes, *, resize: int, keep: float = 1.0, interpolation: Interpolation = "bilinear") -> Pixels:
    """Decode and resize an image, (H, W, 3), uint8.

    With ``keep`` 1 the short side becomes ``resize`` exactly; with a larger one only images whose short
    side is above keep * resize shrink to it, so that later crops still find detail. A large JPEG is
    decoded at reduced size first, at least twice the size wanted. EXIF orientation is applied;
    transparent images stand on white. Bytes that are no image, or a damaged one, are a DataError.

    Args:
        data: the encoded image.
        resize: short side in pixels.
        keep: see above.
        interpolation: filter of the resize.
    """
    try:
        return decode(data, resize=resize, keep=keep, interpolation=interpolation)
    except SimilisError:
        raise
    except Exception as error:  # on damaged bytes decoders raise nearly every kind of error
        raise DataError(f"the image cannot be decoded: {explain(error, data)}") from error


def decode(data: bytes, *, resize: int, keep: float, interpolation: Interpolation) -> Pixels:
    """What :func:`prepare` does, with the errors of Pillow."""
    pillow = import_extra("PIL.Image")
    image = pillow.open(io.BytesIO(data))
    turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
    width, height = image.size
    if max(width, height) > _LONGEST * min(width, height):
        raise DataError(
            f"the image has {width} x {height} pixels; a side has at most {_LONGEST} times the other: crop it"
        )
    wanted = prepared_size(image.size, resize, keep)
    image.draft(None, (2 * wanted[0], 2 * wanted[1]))
    image = to_rgb(image)
    if image.size != wanted:
        image = image.resize(wanted, filter_of(interpolation))
    if turn:
        image = image.transpose(pillow.Transpose[turn])
    return np.asarray(image, dtype=np.uint8)


def prepared_size(size: tuple[int, int], resize: int, keep: float) -> tuple[int, int]:
    """Width and height after :func:`prepare`; the long side is rounded down."""
    width, height = size
    short = min(width, height)
    target = resize if keep == 1.0 else round(keep * resize)
    if keep != 1.0 and short <= target:
        return size
    if width <= height:
        return target, max(target, target * height // width)
    return max(target, target * width // height), target


def explain(error: Exception, data: bytes) -> str:
    """Why bytes could not be decoded, in words."""
    pillow = import_extra("PIL.Image")
    if not data:
        return "the file is empty"
    if isinstance(error, import_extra("PIL").UnidentifiedImageError):
        return "it is not an image of a known format"
    if isinstance(error, pillow.DecompressionBombError | pillow.DecompressionBombWarning):
        return "it claims more pixels than Pillow decodes, as a decompression bomb would; make it smaller"
    return f"it is damaged or cut short ({' '.join(str(error).split()) or type(error).__name__})"


def resize(pixels: Pixels, side: int, interpolation: Interpolation) -> Pixels:
    """An array as a square of the given side."""
    image = import_extra("PIL.Image").fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((side, side), filter_of(interpolation)), dtype=np.uint8)


def mapped(pixels: Pixels, inverse: tuple[float, ...], ground: tuple[int, ...], interpolation: Interpolation) -> Pixels:
    """An array under an affine map, given by its inverse (a, b, c, d, e, f); ``ground`` where nothing is."""
    pillow = import_extra("PIL.Image")
    image = pillow.fromarray(np.ascontiguousarray(pixels))
    a, b, c, d, e, f = inverse
    # PIL counts from the corner of a pixel, the map from its centre.
    corner = (a, b, c + 0.5 - 0.5 * (a + b), d, e, f + 0.5 - 0.5 * (d + e))
    turned = image.transform(
        image.size, pillow.Transform.AFFINE, corner, resample=filter_of(interpolation), fillcolor=ground
    )
    return np.asarray(turned, dtype=np.uint8)


def filter_of(interpolation: Interpolation) -> Any:
    """PIL's name of a filter."""
    filters = import_extra("PIL.Image").Resampling
    return filters.BICUBIC if interpolation == "bicubic" else filters.BILINEAR
