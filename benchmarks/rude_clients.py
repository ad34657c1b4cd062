"""Clients that are a burden: ``python -m benchmarks.rude_clients PORT SECONDS slow|huge``.

``slow`` holds 50 connections and sends each request a byte at a time. ``huge`` sends one form of 15 MiB after the
other, which is no image. Both go on until the time is over, whatever the server answers.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time

SLOW, PAUSE = 50, 0.1  # connections, and seconds between their bytes
HUGE = 15 * 2**20


def connect(port: int) -> socket.socket:
    """A connection to the server."""
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def trickle(port: int, until: float) -> None:
    """Send requests of 2,048 bytes, a byte at a time, and begin again where the server has had enough."""
    head = b"POST /v1/search/vector HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2048\r\n\r\n"
    held: list[socket.socket | None] = [None] * SLOW
    while time.perf_counter() < until:
        for place, known in enumerate(held):
            try:
                held[place] = each = known or connect(port)
                each.sendall(b"\0" if known else head)
            except OSError:
                held[place] = None
        time.sleep(PAUSE)


def flood(port: int, until: float) -> None:
    """Send large forms, one after the other."""
    before = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    body = before + os.urandom(HUGE) + b"\r\n--b--\r\n"
    head = (
        "POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    while time.perf_counter() < until:
        with contextlib.suppress(OSError), connect(port) as each:
            each.sendall(head.encode() + body)
            while each.recv(2**16):
                pass


if __name__ == "__main__":
    {"slow": trickle, "huge": flood}[sys.argv[3]](int(sys.argv[1]), time.perf_counter() + float(sys.argv[2]))
