"""Uploaded images: what they are is checked by their header before anything is decoded."""

from __future__ import annotations

import io
import math
from typing import Any, NamedTuple

from similis.data.images import Pixels, prepare, upright
from similis.data.items import item_digest
from similis.model.bundle import make_thumbnail
from similis.serving.limits import Limits, Refusal
from similis.values import DataError, Preprocessing, UserError, import_extra

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "MPO")  # none that starts another program
Box = tuple[float, float, float, float]


class Upload(NamedTuple):
    """An image as the network takes it, the hash of its bytes, a small picture if it was asked for, and its bytes."""

    pixels: Pixels
    digest: str
    thumbnail: bytes = b""
    original: bytes = b""


def read_upload(
    data: bytes, look: Preprocessing | None, limits: Limits, *, box: Box | None = None, thumbnail: bool = False
) -> Upload:
    """Decode and resize an image; what is refused is a :class:`Refusal` with its status.

    Args:
        data: encoded bytes.
        look: what the network wants.
        limits: on its pixels.
        box: the part to keep, in shares of the upright image: left, top, right, bottom.
        thumbnail: whether to make a small picture.
    """
    if look is None:
        raise Refusal(422, "this model takes vectors and no images; use the routes of vectors")
    image, digest = open_image(data, limits), item_digest(data)
    try:
        small = make_thumbnail(data, FORMATS) if thumbnail else b""
        if box is not None:
            digest = ""  # no image of the gallery was made from this part
        part = data if box is None else crop(image, box)
        pixels = prepare(part, resize=look.resize, interpolation=look.interpolation, formats=FORMATS)
        return Upload(pixels, digest, small, data)
    except (DataError, OSError, ValueError, SyntaxError, MemoryError) as error:
        words = str(error) if isinstance(error, DataError | UserError) else "the image cannot be decoded: it is damaged"
        raise Refusal(422, words) from error


def open_image(data: bytes, limits: Limits) -> Any:
    """An image of Pillow's of which only the header was read."""
    pillow = import_extra("PIL.Image")
    try:
        image = pillow.open(io.BytesIO(data), formats=FORMATS)
    except pillow.DecompressionBombError as error:
        raise too_many_pixels(limits) from error
    except Exception as error:  # on damaged bytes decoders raise nearly every kind of error
        raise Refusal(415, f"the file is not an image of a known format; send {', '.join(FORMATS[:4])}") from error
    if image.size[0] * image.size[1] > limits.pixels:
        raise too_many_pixels(limits)
    return image


def too_many_pixels(limits: Limits) -> Refusal:
    """The answer to an image that is too large to decode."""
    return Refusal(413, f"the image has more than {limits.pixels:,} pixels; send a smaller one")


def crop(image: Any, box: Box) -> Any:
    """The part of the upright image in a box, at least one pixel large."""
    whole = upright(image)
    (left, right), (top, bottom) = (
        (min(math.floor(low * side), side - 1), math.ceil(high * side))
        for low, high, side in ((box[0], box[2], whole.width), (box[1], box[3], whole.height))
    )
    return whole.crop((left, top, right, bottom))


def parse_box(text: str) -> Box:
    """Four numbers from 0 to 1.

    Example:
        >>> parse_box("0,0.5,1,1")
        (0.0, 0.5, 1.0, 1.0)
    """
    try:
        left, top, right, bottom = (float(part) for part in text.split(","))
    except ValueError:
        left = top = right = bottom = math.nan
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise Refusal(422, f"box is {text[:80]!r}; give left,top,right,bottom as shares from 0 to 1, as in 0,0,0.5,1")
    return left, top, right, bottom
