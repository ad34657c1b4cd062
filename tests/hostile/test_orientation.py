"""Every format that can state an orientation, in all eight, is upright wherever a photo enters."""

import io

import numpy as np
import pytest
from PIL import Image, features

import similis
from similis.data.images import prepare, upright
from similis.model.bundle import make_thumbnail
from similis.serving.limits import Limits
from similis.serving.uploads import read_upload
from tests.data.pictures import write

FORMATS = {
    "JPEG": {"quality": 100, "subsampling": 0},
    "PNG": {},
    "WEBP": {"lossless": True},
    "TIFF": {},
    "MPO": {"quality": 100},
}
if features.check("avif"):
    FORMATS["AVIF"] = {"quality": 100}
# What a camera does to an upright image before it states this orientation.
TURNED = {
    1: None, 2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_90",
    7: "TRANSVERSE", 8: "ROTATE_270",
}  # fmt: skip
CORNERS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[255, 255, 0], [0, 255, 255], [255, 0, 255]]], np.uint8)
UPRIGHT = np.kron(CORNERS, np.ones((16, 16, 1), np.uint8))  # 32 x 48, six colours


def taken(form: str, orientation: int) -> bytes:
    """The upright photo as a camera in this orientation stores it."""
    image, held, exif = Image.fromarray(UPRIGHT), io.BytesIO(), Image.Exif()
    if TURNED[orientation]:
        image = image.transpose(Image.Transpose[TURNED[orientation]])
    exif[0x0112] = orientation
    image.save(held, form, exif=exif, **FORMATS[form])
    return held.getvalue()


def is_upright(pixels) -> bool:
    """Whether the six colours are where they belong; codecs may change them a little."""
    height, width = pixels.shape[:2]
    seen = pixels[height // 4 :: height // 2, width // 6 :: width // 3].astype(int)
    return seen.shape == CORNERS.shape and bool((abs(seen - CORNERS) < 60).all())


@pytest.fixture(scope="module")
def model():
    return similis.pretrained("small_conv", weights=None, size=16, device="cpu")


@pytest.mark.parametrize("orientation", TURNED)
@pytest.mark.parametrize("form", FORMATS)
def test_a_photo_is_upright_in_training_search_server_and_thumbnail(model, form, orientation, tmp_path):
    data, look = taken(form, orientation), model.preprocessing
    assert is_upright(prepare(data, resize=32))
    assert is_upright(prepare(Image.open(io.BytesIO(data)), resize=32))
    assert is_upright(np.asarray(upright(Image.open(io.BytesIO(data)))))
    assert is_upright(np.asarray(Image.open(io.BytesIO(make_thumbnail(data)))))
    pixels = read_upload(data, look, Limits()).pixels
    assert (pixels == prepare(data, resize=look.resize, interpolation=look.interpolation)).all()
    part = read_upload(data, look, Limits(), box=(0, 0, 1, 0.5)).pixels  # red, green, blue
    assert (abs(part[4, [4, part.shape[1] // 2, -4]].astype(int) - CORNERS[0]) < 60).all()
    name = f"photo.{form.lower().replace('mpo', 'jpg')}"
    found = similis.open_data(str(write(tmp_path, {f"a/{name}": data, "b/other.png": taken("PNG", 1)})))
    vectors = model.encode(found)  # as a run and a bulk embedding read it
    plain = prepare(taken(form, 1), resize=look.resize, interpolation=look.interpolation)
    assert float((vectors[0] - model.encode(data)).abs().max()) < 1e-6
    assert float(vectors[0] @ model.encode(Image.fromarray(plain))) > 0.999
