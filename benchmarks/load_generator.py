"""A process that sends requests: ``python -m benchmarks.load_generator PORT SECONDS RATE CONNECTIONS FILE``.

It imports nothing but the standard library and writes requests as ready bytes, so that the cores are the server's. FILE
holds requests, each behind its length; RATE 0 sends as many as go. It begins at a line on its standard input, and
prints the seconds of each request.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path


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


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    """One request on a connection that stays open."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))


async def generate(port: int, requests: Sequence[bytes], seconds: float, rate: float, connections: int) -> list[float]:
    """Seconds of each request; at a rate they count from the moment when it was due."""
    found: list[float] = []
    started = time.perf_counter()
    step = connections / rate if rate else 0.0

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        due, count = started + step * number / connections, number
        while time.perf_counter() < started + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()) if step else 0.0)
            begin = due if step else time.perf_counter()
            await ask(reader, writer, requests[count % len(requests)])
            found.append(time.perf_counter() - begin)
            due, count = due + step, count + connections
        writer.close()

    await asyncio.gather(*(one(number) for number in range(connections)))
    return found


if __name__ == "__main__":
    port, seconds, rate, connections = (float(word) for word in sys.argv[1:5])
    requests = unpack(Path(sys.argv[5]).read_bytes())
    sys.stdin.readline()
    for value in asyncio.run(generate(int(port), requests, seconds, rate, int(connections))):
        print(f"{value:.6f}")
