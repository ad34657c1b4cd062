"""From encoded bytes to an upright RGB array of a known size: the deterministic half of preprocessing."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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
_SIXTEEN_BITS = 2**16 - 1
_REMEDY = "save it with 8 or 16 bits for each channel"


def to_rgb(image: Any) -> Any:
    """An image of any mode as RGB; what is transparent becomes white.

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
    ground = import_extra("PIL.Image").new("RGBA", image.size, "white")
    ground.alpha_composite(straight.convert("RGBA"))
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


# Premultiplied alpha is "La" and "RGBa"; "RGBX" has a fourth channel without meaning.
MODES: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"), convert_colours),
    **dict.fromkeys(("LA", "La", "PA", "RGBA", "RGBa"), lay_on_white),
    **dict.fromkeys(("I", "I;16", "I;16B", "I;16L", "I;16N"), scale_integers),
    "F": scale_floats,
}


def prepare(
    data: bytes | Any,
    *,
    resize: int,
    keep: float = 1.0,
    interpolation: Interpolation = "bilinear",
    formats: tuple[str, ...] | None = None,
) -> Pixels:
    """Decode and resize an image, (H, W, 3), uint8.

    With ``keep`` 1 the short side becomes ``resize`` exactly; with a larger one only images whose short
    side is above keep * resize shrink to it, so that later crops still find detail. The bytes of a large JPEG are
    decoded at reduced size first, at least twice the size wanted. EXIF orientation is applied;
    transparent images stand on white. Bytes that are no image, or a damaged one, are a DataError.

    Args:
        data: the encoded image, or an image of Pillow's, which keeps its size.
        resize: short side in pixels.
        keep: see above.
        interpolation: filter of the resize.
        formats: Pillow's names of those that bytes may have; None for all.
    """
    pillow, is_own = import_extra("PIL.Image"), isinstance(data, bytes)
    try:
        image: Any = pillow.open(io.BytesIO(data), formats=formats) if is_own else data
        width, height = image.size
        if max(width, height) > _LONGEST * min(width, height):
            raise DataError(
                f"the image has {width} x {height} pixels; a side has at most {_LONGEST} times the other: crop it"
            )
        wanted = prepared_size(image.size, resize, keep)
        if is_own:  # a draft changes the image, which may be somebody else's
            image.draft(None, (2 * wanted[0], 2 * wanted[1]))
        drafted = image.size
        turn = find_turn(image)
        if image.size != drafted:  # a TIFF has turned itself
            wanted = prepared_size(image.size, resize, keep)
        image = to_rgb(image)
        if image.size != wanted:
            image = image.resize(wanted, filter_of(interpolation))
        return np.asarray(image.transpose(pillow.Transpose[turn]) if turn else image, dtype=np.uint8)
    except SimilisError:
        raise
    except Exception as error:  # on damaged bytes decoders raise nearly every kind of error
        raise DataError(f"the image cannot be decoded: {explain(error, data)}") from error


def upright(image: Any) -> Any:
    """An image of Pillow's as RGB, turned as its EXIF orientation says; it keeps all pixels and no EXIF."""
    pillow, turn = import_extra("PIL.Image"), find_turn(image)
    image = to_rgb(image)
    turned = image.transpose(pillow.Transpose[turn]) if turn else image
    return pillow.fromarray(np.asarray(turned))  # without the metadata of the file, which would rotate it again


def find_turn(image: Any) -> str | None:
    """What still makes a loaded image upright; None for nothing. Some formats turn themselves while they load."""
    image.load()
    return _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))


def prepared_size(size: tuple[int, int], resize: int, keep: float) -> tuple[int, int]:
    """Width and height after :func:`prepare`; the long side is rounded down."""
    width, height = size
    target = round(keep * resize)
    if keep != 1.0 and min(size) <= target:
        return size
    if width <= height:
        return target, max(target, target * height // width)
    return max(target, target * width // height), target


def explain(error: Exception, data: bytes | Any) -> str:
    """Why bytes could not be decoded, in words."""
    pillow = import_extra("PIL.Image")
    if data == b"":
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


def apply_affine(
    pixels: Pixels, inverse: tuple[float, ...], ground: tuple[int, ...], interpolation: Interpolation
) -> Pixels:
    """An array under an affine map, given by its inverse (a, b, c, d, e, f); ``ground`` where nothing is."""
    pillow = import_extra("PIL.Image")
    image = pillow.frombytes("RGB", (pixels.shape[1], pixels.shape[0]), pixels.tobytes())
    a, b, c, d, e, f = inverse
    # PIL counts from the corner of a pixel, the map from its centre.
    corner = (a, b, c + 0.5 - 0.5 * (a + b), d, e, f + 0.5 - 0.5 * (d + e))
    turned = image.transform(
        image.size, pillow.Transform.AFFINE, corner, resample=filter_of(interpolation), fillcolor=ground
    )
    return np.frombuffer(turned.tobytes(), dtype=np.uint8).reshape(pixels.shape)


def filter_of(interpolation: Interpolation) -> Any:
    """PIL's name of a filter."""
    return import_extra("PIL.Image").Resampling[interpolation.upper()]
