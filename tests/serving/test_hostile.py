"""More than 500 hostile files as uploads: right codes, bounded memory, and the server answers afterwards as before."""

import io
import struct
import tarfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

from benchmarks.millions_index import resident
from tests.data.pictures import picture
from tests.hostile.test_archives import FILES, patched, zipped
from tests.hostile.test_images import FORMATS, OTHERS, chunk, claiming, cut, flip, png, whole
from tests.serving.running import KEY, PHOTOS, photo

CODES = {200, 413, 415, 422}
SIZES = ((7000, 7000), (60_000, 60_000), (1, 300), (1, 60_000))  # that a header claims
MEGABYTES = 1500  # of the whole process at its peak: torch and matplotlib take some 500 of them


def bombs() -> list[bytes]:
    """Small files that are large when they are decoded."""
    large = zlib.compress(bytes(6000 * 6000 * 3 + 6000), 9)  # 36 million pixels, the most that is decoded
    line = chunk(b"IDAT", large)
    return [
        png(6000, 6000, line),
        png(30_000, 30_000, line),
        png(8, 8, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**24))), chunk(b"IDAT", zlib.compress(bytes(200)))),
        png(8, 8, chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(2**24))), chunk(b"IDAT", zlib.compress(bytes(200)))),
        png(8, 8, *[chunk(b"tEXt", b"a\0" + bytes([97]) * 1000)] * 2000, chunk(b"IDAT", zlib.compress(bytes(200)))),
        *(claiming(form, *size) for form in ("PNG", "PPM", "GIF", "BMP", "JPEG", "TIFF") for size in SIZES),
        *(claiming("PNG", 2**31 - 1, height) for height in (0, 1, 2**31 - 1)),
        zipped({"a.png": bytes(10**8)}),  # an archive whose one member is 100 megabytes of nothing
    ]


def polyglots() -> list[bytes]:
    """Files of two kinds at once: images with something else in front of, inside or behind them."""
    made = []
    for form in FORMATS:
        data = whole(form)
        for other in OTHERS.values():
            made += [data + other, other + data]
        made += [data + zipped(FILES), zipped(FILES) + data, data + data[::-1], data[: len(data) // 2] + data]
    return made


def archives() -> list[bytes]:
    """Archives where an image is expected."""
    data = zipped(FILES)
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../../out.png"), io.BytesIO())
    return [data, patched(data, 8, b"\x01"), patched(data, 24, b"\xff\xff\xff\xbf"), held.getvalue(), *cut(data, 14)]


def odd_images() -> list[bytes]:
    """Whole images of odd kinds, which are read or refused."""
    made = [picture(1, *size) for size in ((1, 1), (1, 256), (256, 1), (1, 257), (2, 3))]
    for mode in ("1", "L", "P", "LA", "RGBA", "I", "I;16", "F", "CMYK"):
        held = io.BytesIO()
        Image.fromarray(np.zeros((8, 8), np.uint8)).convert("L").convert("I" if mode == "I;16" else mode).save(
            held, "TIFF" if mode in ("I", "I;16", "F", "CMYK") else "PNG"
        )
        made.append(held.getvalue())
    made += [
        png(8, 8, chunk(b"IDAT", zlib.compress(bytes(200))), depth=d, colour=c) for d in (0, 3, 16) for c in range(8)
    ]
    exif = Image.Exif()
    for value in (0, 6, 9, 65535):
        exif[0x0112] = value
        made.append(picture(1, form="JPEG", exif=exif))
    return [*made, b"II*\0" + struct.pack("<I", 8) + b"\xff" * 400, b"MM\0*" + b"\xff" * 400]


def attacks() -> list[bytes]:
    """All of them."""
    made = [each for form in FORMATS for each in (*cut(whole(form), 14), *flip(whole(form), 20, seed=7))]
    return [*made, *OTHERS.values(), *bombs(), *polyglots(), *archives(), *odd_images()]


def test_more_than_five_hundred_files_attack(server):
    files = attacks()
    assert len(files) >= 500
    before = server.form("/v1/search", {"file": PHOTOS["kind1/1.png"]}).json()["hits"]

    def send(data: bytes) -> int:
        return server.form("/v1/search", {"file": data}).status_code

    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(send, files))
    assert set(codes) == CODES
    assert all(codes.count(code) > 10 for code in CODES)
    assert server.form("/v1/search", {"file": PHOTOS["kind1/1.png"]}).json()["hits"] == before
    assert resident(server.process.pid) < MEGABYTES * 2**20


def test_what_is_refused_is_not_enrolled(server):
    for data in (*OTHERS.values(), *archives()[:4], whole("PNG")[:200]):
        assert server.form("/v1/items", {"file": data}, key=KEY).status_code in (415, 422)
        pair = [("file", ("f", photo(40))), ("file", ("f", data))]  # all of a request or nothing
        assert server.ask("POST", "/v1/items", files=pair, key=KEY).status_code in (415, 422)
    assert server.listed().keys() == PHOTOS.keys()


def test_no_program_is_started_for_an_image(server):
    """Pillow hands PostScript to Ghostscript; here it is of no known format, also inside a file of another kind."""
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) run\nshowpage\n"
    for data in (script, b"\xc5\xd0\xd3\xc6" + struct.pack("<II", 30, len(script)) + bytes(18) + script):
        assert server.form("/v1/search", {"file": data}).status_code == 415


def test_odd_requests(server):
    """Bytes that are no HTTP, or HTTP of another kind; the server lives on."""
    heads = [b"\0\1\2\3\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
             b"GET " + b"/" * 60_000,
             b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
             b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nx",
             b"GET /health HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
             b"GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: localhost\r\n\r\n"]  # fmt: skip
    for head in heads:
        with server.connect() as connection:
            connection.sendall(head)
    for boundary in ("", "ü", '"'):
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}".encode()}
        assert server.ask("POST", "/v1/search", data=b"--b\r\n\r\n\r\n--b--", headers=kind).status_code in (400, 422)
    unnamed = b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--"
    for part in (unnamed, b"--b\r\n: \r\n\r\n--b--", b"--b" * 10_000):
        kind = {"Content-Type": "multipart/form-data; boundary=b; charset=utf-7"}
        assert server.ask("POST", "/v1/search", data=part, headers=kind).status_code in (400, 422)
    assert server.get("/health").status_code == 200
