"""The server under load: ``python -m benchmarks.serving [--only ROW] [--json FILE] [--seconds 60] [--requests N]``.

A gallery of 20,000 x 512, one query a request. Rows:

- ``throughput``: queries a second over HTTP on loopback, two processes that generate them, beside the same
  micro-batching in one process without HTTP, on the same cores; they take turns, and the ratio is the median over
  rounds.
- ``latency``: the 99th percentile at half of that throughput, as a ratio in the same way.
- ``images``: images a second end to end (a JPEG goes out, hits come back), beside ``Model.encode`` of the same files.
- ``others``: the 99th percentile at a tenth of the throughput, alone, beside 50 clients that send a byte at a time, and
  beside one that sends forms of 15 MiB; they take turns, and the ratios are medians over rounds.
- ``memory``: resident megabytes after a tenth of ``--requests`` and after all.

``--seconds`` bounds each turn of a row but the last. Everything listens on 127.0.0.1 only.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks.load_generator import pack
from benchmarks.millions_index import resident
from benchmarks.rounds import median, median_ratio, take_turns, write_json
from similis.model.load import load
from similis.model.model import Model
from similis.run.machine import Machine
from similis.run.network import build_network
from similis.run.spec import ModelSpec
from similis.serving.collection import Collection, Query
from similis.serving.limits import Limits
from similis.serving.metrics import Metrics

ITEMS, DIM, LABELS = 20_000, 512, 200
GENERATORS, CONNECTIONS = 2, 32  # processes, and connections of each
ROUNDS = 3
MB = 2**20
ROWS = ("throughput", "latency", "images", "others", "memory")
RUDE = {"alone": "", "slow": "slow", "huge": "huge"}
SERVE = """
import sys
from pathlib import Path
from similis.serving.server import serve
serve(Path(sys.argv[1]), port=0, on_ready=lambda address: print(address, flush=True))
"""


def make_model(folder: Path) -> Path:
    """A saved model with a gallery of random unit vectors: their number and length decide the time."""
    spec = ModelSpec(backbone="small_conv", weights=None, dim=DIM, image_size=64)
    machine = Machine()
    network = build_network(spec, machine, normalise=True, seed=0).eval()
    model = Model(network, spec, name="small_conv", machine=machine)
    chance = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(ITEMS, model.dim, generator=chance), dim=1)
    model.add(vectors, labels=[f"class {n % LABELS}" for n in range(ITEMS)], ids=[f"item {n}" for n in range(ITEMS)])
    return model.save(folder / "model")


@contextmanager
def server(folder: Path) -> Iterator[tuple[int, int]]:
    """A server; its port and its process id."""
    words = [sys.executable, "-c", SERVE, str(folder)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "SIMILIS_KEY": "a-key-of-the-benchmark"}
    )
    try:
        yield int(process.stdout.readline().rstrip("/\n").rpartition(":")[2]), process.pid
    finally:
        process.terminate()
        process.wait()


def request_of(body: bytes, path: str, kind: str) -> bytes:
    """A request as bytes: a client that costs next to nothing leaves the cores to the server."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def vector_requests(vectors: torch.Tensor) -> list[bytes]:
    """A search for each vector."""
    kind = "application/octet-stream"
    return [request_of(v.numpy().astype("<f4").tobytes(), "/v1/search/vector", kind) for v in vectors]


def load_server(
    port: int, requests: list[bytes], seconds: float, rate: float = 0.0, connections: int = CONNECTIONS
) -> list[float]:
    """Seconds of all requests of all generating processes."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pack(requests))
        given = [str(each) for each in (port, seconds, rate / GENERATORS, connections, file.name)]
        words = [sys.executable, "-m", "benchmarks.load_generator", *given]
        pipe = subprocess.PIPE
        running = [subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) for _ in range(GENERATORS)]
        time.sleep(1.0)  # until all have read their requests
        for process in running:
            process.stdin.write("\n")
            process.stdin.flush()
        found = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("a generating process failed")
    return [float(line) for part in found for line in part.split()]


def load_process(
    collection: Collection, vectors: torch.Tensor, seconds: float, rate: float | None = None
) -> list[float]:
    """The same queries through the same micro-batching, without HTTP and in one process."""

    async def play() -> list[float]:
        found: list[float] = []
        until, clients = time.perf_counter() + seconds, GENERATORS * CONNECTIONS

        async def one(number: int) -> None:
            step = clients / rate if rate else 0.0
            due, count = time.perf_counter() + step * number / clients, number
            while time.perf_counter() < until:
                await asyncio.sleep(max(0.0, due - time.perf_counter()) if step else 0.0)
                begin = due if step else time.perf_counter()
                await collection.find(Query(vectors[count % len(vectors)], 12))
                found.append(time.perf_counter() - begin)
                due, count = due + step, count + clients

        await asyncio.gather(*(one(number) for number in range(clients)))
        return found

    return asyncio.run(play())


def percentile(values: list[float], share: float = 99.0) -> float:
    """Milliseconds that this share of the requests does not exceed."""
    return 1000 * float(np.percentile(values, share))


def middles(turns: dict[str, list[float]], beside: str) -> dict[str, float]:
    """Medians of all contestants, and the ratio of the server to one of them."""
    return {**{k: median(v) for k, v in turns.items()}, "ratio": median_ratio(turns, "server", beside)}


def measure_queries(folder: Path, seconds: float, rows: list[str]) -> dict[str, Any]:
    """Throughput, and latency at half of it."""
    collection = Collection(folder, folder.parent / "baseline.sqlite", Limits(), Metrics())
    vectors = torch.nn.functional.normalize(torch.randn(512, collection.model.dim), dim=1)
    requests = vector_requests(vectors)
    turn, found = seconds / ROUNDS, {}
    with server(folder) as (port, _):
        load_server(port, requests, 2.0)
        load_process(collection, vectors, 2.0)
        per_second = take_turns({
            "server": lambda: len(load_server(port, requests, turn)) / turn,
            "process": lambda: len(load_process(collection, vectors, turn)) / turn,
        }, ROUNDS)  # fmt: skip
        found["throughput"] = middles(per_second, "process")
        if "latency" in rows:
            half = median(per_second["server"]) / 2
            late = take_turns({
                "server": lambda: percentile(load_server(port, requests, turn, half)),
                "process": lambda: percentile(load_process(collection, vectors, turn, half)),
            }, ROUNDS)  # fmt: skip
            found["latency"] = middles(late, "process")
    collection.close()
    return {name: found[name] for name in found if name in rows}


def photos(count: int) -> list[bytes]:
    """Different JPEG files of 640 x 480."""
    made = []
    for seed in range(count):
        grid = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)
        held = io.BytesIO()
        Image.fromarray(grid).resize((640, 480), Image.Resampling.BICUBIC).save(held, "JPEG", quality=85)
        made.append(held.getvalue())
    return made


def measure_images(folder: Path, seconds: float) -> dict[str, Any]:
    """Images a second, end to end, beside decoding with the network."""
    model, files, turn = load(folder), photos(64), seconds / ROUNDS
    before = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    requests = [
        request_of(before + data + b"\r\n--b--\r\n", "/v1/search", "multipart/form-data; boundary=b") for data in files
    ]

    def encode() -> float:
        until, done = time.perf_counter() + turn, 0
        while time.perf_counter() < until:
            done += len(model.encode(files[:16], batch_size=16))
        return done / turn

    with server(folder) as (port, _):
        load_server(port, requests, 2.0, connections=8)
        found = take_turns({
            "server": lambda: len(load_server(port, requests, turn, connections=8)) / turn,
            "encode": encode,
        }, ROUNDS)  # fmt: skip
    return middles(found, "encode")


def measure_others(folder: Path, seconds: float) -> dict[str, Any]:
    """Milliseconds of a modest load, alone and beside clients that are a burden."""
    requests, turn = vector_requests(torch.randn(512, load(folder).dim)), seconds / ROUNDS
    with server(folder) as (port, _):
        rate = len(load_server(port, requests, 3.0)) / 3.0 / 10

        def beside(kind: str) -> float:
            words = [sys.executable, "-m", "benchmarks.rude_clients", str(port), str(turn + 1.0), kind]
            rude = subprocess.Popen(words) if kind else None
            late = percentile(load_server(port, requests, turn, rate, connections=4))
            if rude is not None:
                rude.wait()
            return late

        found = take_turns({name: partial(beside, kind) for name, kind in RUDE.items()}, ROUNDS)
    ratios = {f"ratio {name}": median_ratio(found, name, "alone") for name in list(RUDE)[1:]}
    return {"queries a second": rate, **{k: median(v) for k, v in found.items()}, **ratios}


def measure_memory(folder: Path, wanted: int) -> dict[str, Any]:
    """Resident megabytes after a tenth of the requests and after all."""
    requests = vector_requests(torch.randn(512, load(folder).dim))
    with server(folder) as (port, process):
        count, early = 0, 0.0
        while count < wanted:
            count += len(load_server(port, requests, 5.0))
            early = early or (resident(process, "VmRSS") / MB if count >= wanted / 10 else 0.0)
        late = resident(process, "VmRSS") / MB
        return {"requests": count, "early": early, "late": late, "ratio": late / early}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=ROWS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=100_000)
    asked = parser.parse_args()
    rows = [asked.only] if asked.only else list(ROWS)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = make_model(Path(place))
        if {"throughput", "latency"} & set(rows):
            found |= measure_queries(folder, asked.seconds, rows)
        if "images" in rows:
            found["images"] = measure_images(folder, asked.seconds)
        if "others" in rows:
            found["others"] = measure_others(folder, asked.seconds)
        if "memory" in rows:
            found["memory"] = measure_memory(folder, asked.requests)
    print(json.dumps(found, indent=1))
    write_json(asked.json, "python -m benchmarks.serving", found)


if __name__ == "__main__":
    main()
