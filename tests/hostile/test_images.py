"""Image files that are cut short, damaged, dishonest about their size, or of an odd kind."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from tests.data.pictures import picture
from tests.hostile.refusals import read_image

FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "PPM")
CUTS, FLIPS = 14, 14  # of each format in CI; many more in the slow test


def whole(form: str) -> bytes:
    """An intact file, with metadata where the format has them."""
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a picture"
    return picture(3, 40, 30, form, **({"exif": exif} if form in ("PNG", "JPEG", "WEBP", "TIFF") else {}))


def cut(data: bytes, number: int) -> list[bytes]:
    """Beginnings of a file, denser at its start, where the headers are."""
    places = sorted(
        {*range(0, min(64, len(data)), max(1, 128 // number)), *np.linspace(0, len(data) - 1, number).astype(int)}
    )
    return [data[:place] for place in places]


def flip(data: bytes, number: int, seed: int, first: int | None = 64) -> list[bytes]:
    """Copies of a file with a few bytes changed, in every second one among the first so many."""
    generator = np.random.default_rng(seed)
    copies = []
    for copy in range(number):
        damaged = bytearray(data)
        for place in generator.integers(0, len(data[:first] if copy % 2 else data), 3):
            damaged[place] ^= int(generator.integers(1, 256))
        copies.append(bytes(damaged))
    return copies


@pytest.mark.parametrize("form", FORMATS)
def test_cut_files(form):
    data = whole(form)
    assert read_image(data) is None
    answers = [read_image(part) for part in cut(data, CUTS)]
    assert answers[0] == "the image cannot be decoded: the file is empty"
    assert sum(answer is not None for answer in answers) >= len(answers) - 3  # some formats end in padding


@pytest.mark.parametrize("form", FORMATS)
def test_flipped_bytes(form):
    answers = [read_image(copy) for copy in flip(whole(form), FLIPS, seed=1)]
    assert any(answers)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *chunks: bytes, depth: int = 8, colour: int = 2) -> bytes:
    """A PNG file by its parts."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(chunks) + chunk(b"IEND", b"")


def claiming(form: str, width: int, height: int) -> bytes:
    """A small file whose header claims to be large."""
    if form == "PNG":
        return png(width, height, chunk(b"IDAT", zlib.compress(b"\0" * 100)))
    if form == "PPM":
        return b"P6 %d %d 255\n" % (width, height)
    data = bytearray(whole(form))
    if form == "GIF":
        data[6:10] = struct.pack("<HH", width, height)
    elif form == "BMP":
        data[18:26] = struct.pack("<ii", width, height)
    elif form == "JPEG":
        start = data.index(b"\xff\xc0")
        data[start + 5 : start + 9] = struct.pack(">HH", height, width)
    else:
        for tag, value in ((256, width), (257, height)):
            at = max(data.find(struct.pack("<HHI", tag, kind, 1)) for kind in (3, 4))  # short or long
            data[at + 2 : at + 12] = struct.pack("<HII", 4, 1, value)
    return bytes(data)


@pytest.mark.parametrize("form", ["PNG", "PPM", "GIF", "BMP", "JPEG", "TIFF"])
def test_bombs_by_header(form):
    side = 60000
    assert "decompression bomb" in read_image(claiming(form, side, side))
    assert "crop it" in read_image(claiming(form, 1, side))
    if form in ("PNG", "PPM"):
        assert "decompression bomb" in read_image(claiming(form, 2**31 - 1, 2**31 - 1))
        assert "cannot be decoded" in read_image(claiming(form, 0, 0))


def test_a_bomb_in_the_text_of_a_file():
    text = b"comment\0\0" + zlib.compress(b"\0" * 2**23)
    assert "cannot be decoded" in read_image(
        png(8, 8, chunk(b"zTXt", text), chunk(b"IDAT", zlib.compress(b"\0" * 200)))
    )


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16, 3, 0])
@pytest.mark.parametrize("colour", [0, 2, 3, 4, 6, 7])
def test_every_depth_and_colour_type_of_png(depth, colour):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4, 7: 1}[colour]
    line = b"\0" + bytes(range(1, 1 + (8 * depth * channels + 7) // 8))
    palette = [chunk(b"PLTE", bytes(range(256)) * 3)] if colour == 3 else []
    said = read_image(png(8, 8, *palette, chunk(b"IDAT", zlib.compress(line * 8)), depth=depth, colour=colour))
    allowed = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.get(colour, ())
    assert (said is None) == (depth in allowed), said


OTHERS = {
    "zeros": bytes(1000),
    "noise": np.random.default_rng(0).bytes(1000),
    "text": b"not an image at all\n" * 50,
    "a web page": b"<!doctype html><html><body>404 Not Found</body></html>",
    "a drawing": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
    "a document": b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF",
    "a script": b"#!/bin/sh\nrm -rf /\n",
    "a program for a printer": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) run\nshowpage\n",
    "an archive": b"PK\x03\x04" + bytes(100),
    "a pickle": b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "a header alone": b"\xff\xd8\xff\xe0",
    "a signature alone": b"\x89PNG\r\n\x1a\n",
    "a photo of another kind": b"\x00\x00\x00\x18ftypheic" + bytes(200),
}


@pytest.mark.parametrize("case", OTHERS)
def test_files_of_another_kind(case):
    assert "cannot be decoded" in read_image(OTHERS[case])


@pytest.mark.parametrize("orientation", [0, 1, 6, 9, 255, 65535])
def test_odd_orientations(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert read_image(picture(1, form="JPEG", exif=exif)) is None


@pytest.mark.parametrize("size", [(1, 1), (1, 256), (256, 1), (2, 3)])
def test_tiny_images_are_read(size):
    assert read_image(picture(1, *size)) is None


def test_films_show_their_first_picture():
    frames = [Image.new("P", (20, 20), colour) for colour in range(4)]
    for form in ("GIF", "PNG", "WEBP", "TIFF"):
        held = io.BytesIO()
        first, *rest = (frame.convert("RGB") for frame in frames)
        first.save(held, form, save_all=True, append_images=rest)
        assert read_image(held.getvalue()) is None


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_many_damaged_files(form):
    for seed in range(60):
        data = whole(form) if seed % 2 else picture(seed, 64, 48, form)
        for copy in (*flip(data, 50, seed), *(cut(data, 40) if seed < 4 else ())):
            read_image(copy)
