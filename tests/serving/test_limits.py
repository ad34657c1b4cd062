"""Limits on bytes, pixels, seconds and queue, each with its code; a slow or a huge client does not stall others."""

import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.hostile.test_images import claiming
from tests.serving.running import DEADLINE, KEY, PHOTOS, Server, photo

BYTES, SECONDS = 100_000, 4.0
HEAD = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'  # a file begins


@pytest.fixture(scope="module")
def server(saved, tmp_path_factory):
    place = shutil.copytree(saved, tmp_path_factory.mktemp("limits") / "model")
    limits = {"bytes": BYTES, "seconds": SECONDS, "pixels": 10_000, "queue": 2, "files": 8}
    with Server(place, limits=limits) as running:
        yield running


def read_status(connection: socket.socket) -> int:
    """The status of the answer, or 0 if the connection is closed without one."""
    held = b""
    while b"\r\n" not in held:
        part = connection.recv(4096)
        if not part:
            return 0
        held += part
    return int(held.split()[1])


@pytest.mark.parametrize("size", [BYTES + 1, 3 * BYTES, 100 * BYTES])
def test_too_many_bytes_with_a_stated_length(server, size):
    with server.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size)
        if size < 4 * BYTES:  # so much is read and thrown away, so that the sender hears why
            connection.sendall(PART + bytes(size - len(PART)))
        assert read_status(connection) == 413


def test_too_many_bytes_without_a_stated_length(server):
    with server.connect() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(PART), PART))
        for _ in range(30):
            connection.sendall(b"2000\r\n" + bytes(0x2000) + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        assert read_status(connection) == 413


def test_bytes_that_never_end_are_cut_off(server):
    with server.connect() as connection, pytest.raises(OSError):  # noqa: PT011, PT012 - reset or broken pipe
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(PART), PART))
        for _ in range(100_000):
            connection.sendall(b"2000\r\n" + bytes(0x2000) + b"\r\n")


def test_a_body_of_the_allowed_size_is_read(server):
    data = photo(1) + bytes(BYTES - len(photo(1)) - 500)  # decoders stop at the end of the image
    assert server.form("/v1/search", {"file": data}).status_code == 200


@pytest.mark.parametrize("form", ["PNG", "PPM", "GIF", "BMP", "JPEG", "TIFF"])
@pytest.mark.parametrize("side", [101, 60_000])
def test_too_many_pixels_by_the_header(server, form, side):
    answer = server.form("/v1/search", {"file": claiming(form, side, side)})
    assert answer.status_code == 413
    assert "10,000 pixels" in answer.json()["error"]


def test_a_full_queue(server):
    files = [("file", ("f", photo(100 + n))) for n in range(3)]
    answer = server.ask("POST", "/v1/items", files=files, key=KEY)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert server.listed().keys() == PHOTOS.keys()


def test_too_many_files(server):
    files = [("file", ("f", b"x")) for _ in range(9)]
    answer = server.ask("POST", "/v1/items", files=files, key=KEY)
    assert answer.status_code == 422
    assert "give 1 to 8 files" in answer.json()["error"]


def trickle(server, head: bytes, pause: float = 0.2) -> int | None:
    """Send a byte at a time until the server has had enough; the status of its answer."""
    with server.connect() as connection:
        connection.sendall(head)
        connection.settimeout(pause)
        until = time.monotonic() + DEADLINE
        while time.monotonic() < until:
            try:
                with suppress(TimeoutError):
                    return read_status(connection)
                connection.sendall(b"x")
            except OSError:
                return 0
    return None


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(HEAD + b"Content-Length: 90000\r\n\r\n" + PART, 504, id="body"),
        pytest.param(b"GET /health HTTP/1.1\r\nHost: ", 0, id="head", marks=pytest.mark.slow),
    ],
)
def test_slow_clients_are_ended_and_do_not_stall_others(server, head, status):
    during = 0
    with ThreadPoolExecutor(20) as pool:
        slow = [pool.submit(trickle, server, head) for _ in range(20)]
        while not all(each.done() for each in slow):
            assert server.form("/v1/search", {"file": photo(during % 50)}).status_code == 200
            during += 1
    assert [each.result() for each in slow] == [status] * 20
    assert during > 3


def test_a_head_that_never_ends_is_cut_off(server):
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        with pytest.raises(OSError):  # noqa: PT011, PT012 - reset or broken pipe
            for _ in range(1000):
                connection.sendall(bytes([97]) * 8192)
                time.sleep(0.001)
            raise AssertionError("eight megabytes of a header were read")


def test_bytes_of_all_bodies_together(folder):
    limits = {"buffered": 300_000, "seconds": 60.0}
    with Server(folder, limits=limits) as server:
        until = time.monotonic() + DEADLINE
        status, greedy = 200, server.connect()
        while status == 200 and time.monotonic() < until:  # whoever comes second is refused, and that may be the greedy
            greedy.close()
            greedy = server.connect()
            greedy.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n" + PART + bytes(290_000))
            time.sleep(0.2)
            answer = server.form("/v1/search", {"file": photo(1) + bytes(100_000)})
            status = answer.status_code
        assert (status, answer.headers.get("retry-after")) == (503, "1"), answer.text
        assert server.form("/v1/search", {"file": photo(1)}).status_code == 200  # small ones are always read
        greedy.close()
        while status == 503 and time.monotonic() < until:
            status = server.form("/v1/search", {"file": photo(1) + bytes(100_000)}).status_code
        assert status == 200


def test_a_request_before_everything_is_loaded():
    """The socket listens at once, and all but health says 503 until the model is there."""
    from similis.serving.app import build_app
    from similis.serving.metrics import Metrics
    from similis.serving.routes import collection_of

    app = build_app(b"", Metrics())  # the application without a collection is what is served then
    request = type("Request", (), {"app": app})()
    with pytest.raises(Exception, match="still loading") as refused:
        collection_of(request)
    assert refused.value.status_code == 503
