"""A process that sends requests: ``python -m benchmarks.load_generator PORT SECONDS RATE CONNECTIONS FILE``.

It imports nothing but the standard library, writes requests as ready bytes and waits with ``epoll``, so that the cores
are the server's. FILE holds requests, each behind its length; RATE 0 sends as many as go. It begins at a line on its
standard input, and prints the seconds of each request.
"""

from __future__ import annotations

import heapq
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 60.0  # seconds that an answer may take


def pack(requests: Sequence[bytes]) -> bytes:
    """Requests, each behind its length."""
    return b"".join(struct.pack("<I", len(each)) + each for each in requests)


def unpack(data: bytes) -> list[bytes]:
    """The requests of :func:`pack`."""
    found, place = [], 0
    while place < len(data):
        (length,) = struct.unpack_from("<I", data, place)
        found.append(data[place + 4 : place + 4 + length])
        place += 4 + length
    return found


class Connection:
    """A connection that stays open, with one request on its way at most."""

    def __init__(self, port: int, due: float) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = self.began = due
        self.held = b""

    def is_answered(self) -> bool:
        """Read what came; whether the answer is complete."""
        came = self.socket.recv(2**18)
        if not came:
            raise RuntimeError("the server closed a connection")
        self.held += came
        head, found, body = self.held.partition(b"\r\n\r\n")
        if not found:
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(self.held.decode(errors="replace"))
        if len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            return False
        self.held = b""
        return True


def generate(port: int, requests: Sequence[bytes], seconds: float, rate: float, connections: int) -> list[float]:
    """Seconds of each request; at a rate they count from the moment when it was due."""
    found: list[float] = []
    started = now = time.perf_counter()
    until, step = started + seconds, connections / rate if rate else 0.0
    opened = [Connection(port, started + step * number / connections) for number in range(connections)]
    known, poll, busy, count = {each.socket.fileno(): each for each in opened}, select.epoll(), 0, 0
    waiting = [(each.due, number) for number, each in known.items()]  # a heap
    for number in known:
        poll.register(number, select.EPOLLIN)
    while busy or now < until:
        while waiting and waiting[0][0] <= now < until:
            each = known[heapq.heappop(waiting)[1]]
            each.began = each.due if step else time.perf_counter()
            each.socket.sendall(requests[count % len(requests)])
            busy, count = busy + 1, count + 1
        for number, _ in poll.poll(max(0.0, waiting[0][0] - now) if waiting and now < until else PATIENCE):
            if known[number].is_answered():
                each = known[number]
                found.append(time.perf_counter() - each.began)
                each.due, busy = each.due + step, busy - 1
                heapq.heappush(waiting, (each.due, number))
        now = time.perf_counter()
    return found


if __name__ == "__main__":
    port, seconds, rate, connections = (float(word) for word in sys.argv[1:5])
    requests = unpack(Path(sys.argv[5]).read_bytes())
    sys.stdin.readline()
    for value in generate(int(port), requests, seconds, rate, int(connections)):
        print(f"{value:.6f}")
