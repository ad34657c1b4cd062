"""Every mode of Pillow gives the RGB pixels that a viewer would show."""

import io

import numpy as np
import pytest
from PIL import Image

from similis.data.images import MODES, prepare, to_rgb
from similis.values import DataError

RED, GREY, WHITE, BLACK = (255, 0, 0), (127, 127, 127), (255, 255, 255), (0, 0, 0)
# mode, stored value of a pixel, expected RGB
PIXELS = [
    ("1", 255, WHITE), ("1", 0, BLACK),
    ("L", 127, GREY),
    ("LA", (0, 128), GREY), ("LA", (9, 0), WHITE), ("LA", (127, 255), GREY),
    ("La", (0, 128), GREY), ("La", (0, 0), WHITE), ("La", (64, 128), (191, 191, 191)),
    ("RGB", (255, 0, 0), RED),
    ("RGBA", (255, 0, 0, 255), RED), ("RGBA", (255, 0, 0, 128), (255, 127, 127)), ("RGBA", (9, 9, 9, 0), WHITE),
    ("RGBa", (128, 0, 0, 128), (255, 127, 127)), ("RGBa", (0, 0, 0, 0), WHITE),
    ("RGBX", (255, 0, 0, 0), RED),
    ("CMYK", (0, 255, 255, 0), RED), ("CMYK", (0, 0, 0, 128), GREY), ("CMYK", (0, 0, 0, 0), WHITE),
    ("YCbCr", (76, 85, 255), (254, 0, 0)), ("YCbCr", (127, 128, 128), GREY),
    ("LAB", (255, 128, 128), WHITE), ("LAB", (0, 128, 128), BLACK), ("LAB", (138, 209, 198), RED),
    ("HSV", (0, 255, 255), RED), ("HSV", (0, 0, 127), GREY),
    ("F", 0.0, BLACK), ("F", 0.498, GREY), ("F", 1.0, WHITE),
    *((mode, value, rgb) for mode in ("I", "I;16", "I;16B", "I;16L", "I;16N")
      for value, rgb in ((0, BLACK), (32639, GREY), (32767, GREY), (32511, GREY), (65535, WHITE))),  # 32639 = 127 * 257
]  # fmt: skip


def single(mode: str, value: object) -> Image.Image:
    """An image of two equal pixels."""
    if mode.startswith("I;16"):
        order = ">u2" if mode == "I;16B" else "<u2"
        return Image.frombytes(mode, (2, 1), np.full(2, value, order).tobytes())
    return Image.new(mode, (2, 1), value)


@pytest.mark.parametrize(("mode", "value", "expected"), PIXELS)
def test_a_pixel_of_every_mode(mode, value, expected):
    found = to_rgb(single(mode, value))
    assert (found.mode, found.size) == ("RGB", (2, 1))
    near = 6 if mode == "LAB" else 0  # Lab passes through a colour profile
    assert np.abs(np.subtract(found.getpixel((1, 0)), expected)).max() <= near


def test_palettes():
    for mode, pixel, expected in (("P", 1, RED), ("PA", (1, 255), RED), ("PA", (1, 0), WHITE)):
        image = Image.new(mode, (2, 1), pixel)
        image.putpalette([*BLACK, *RED, *GREY])
        assert to_rgb(image).getpixel((0, 0)) == expected
    image = Image.new("P", (2, 1), 1)
    image.putpalette([*BLACK, *RED])
    image.info["transparency"] = 1
    assert to_rgb(image).getpixel((0, 0)) == WHITE


def test_no_mode_of_pillow_is_forgotten():
    assert set(Image.MODES) <= set(MODES) == {mode for mode, *_ in PIXELS} | {"P", "PA"}
    image = Image.new("RGB", (1, 1))
    image._mode = "BGR;15"
    with pytest.raises(DataError, match="BGR;15"):
        to_rgb(image)


def encoded(image: Image.Image, form: str) -> bytes:
    held = io.BytesIO()
    image.save(held, form)
    return held.getvalue()


RAMP = np.arange(256, dtype=np.uint8).repeat(2).reshape(16, 32)


@pytest.mark.parametrize(
    ("image", "form"),
    [
        (Image.fromarray(RAMP), "PNG"),
        (Image.fromarray(RAMP.astype(np.uint16) * 257), "PNG"),
        (Image.fromarray(RAMP.astype(np.uint16) * 257), "TIFF"),
        (Image.fromarray(RAMP.astype(np.uint16) * 257), "PPM"),
        (Image.frombytes("I;16B", (32, 16), (RAMP.astype(">u2") * 257).tobytes()), "TIFF"),
        (Image.fromarray(RAMP.astype(np.int32) * 257), "TIFF"),
        (Image.fromarray(RAMP.astype(np.float32) / 255), "TIFF"),
        (Image.fromarray(RAMP.astype(np.float32) / 255), "PPM"),
        (Image.fromarray(255 - RAMP).convert("RGB").convert("CMYK"), "TIFF"),
        (Image.merge("LAB", [Image.fromarray(RAMP), *[Image.new("L", (32, 16), 128)] * 2]), "TIFF"),
    ],
)
def test_files_of_every_depth_keep_their_brightness(image, form):
    found = prepare(encoded(image, form), resize=16).astype(int)
    expected = 255 - RAMP if image.mode == "CMYK" else RAMP
    near = 17 if image.mode == "LAB" else 0  # lightness is not a grey value
    assert np.abs(found - expected[..., None]).max() <= near


def test_the_transparent_grey_of_a_sixteen_bit_file_is_white():
    image = Image.fromarray(np.uint16([[5000, 257]]))
    held = io.BytesIO()
    image.save(held, "PNG", transparency=5000)
    assert prepare(held.getvalue(), resize=1)[..., 0].tolist() == [[255, 1]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.float32([[0.0, 1.5]]), r"between 0 and 1"),
        (np.float32([[-0.1, 1.0]]), r"between 0 and 1"),
        (np.float32([[0.0, np.nan]]), r"between 0 and 1"),
        (np.float32([[0.0, np.inf]]), r"between 0 and 1"),
        (np.int32([[0, 65536]]), r"0 to 65535"),
        (np.int32([[-1, 9]]), r"0 to 65535"),
        (np.int32([[0, 255]]), r"8 or 16 bits"),  # could be either
    ],
)
def test_numbers_without_a_scale_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        prepare(encoded(Image.fromarray(values), "TIFF"), resize=1)
