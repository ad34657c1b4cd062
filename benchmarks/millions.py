"""Ten million items, streamed in, indexed and searched: ``python -m benchmarks.millions STEP``.

Steps: ``make`` (synthetic vectors with the spectrum of EfficientNet-lite0's features of birds, in tables of 1,000),
``embed`` (``similis embed`` of the tables by a network that leaves them as they are, under kills), ``build`` (``similis
index --kind ivf-int8`` beside bare faiss with the same parameters), ``draws`` (recall on fresh queries), ``serve``
(``similis serve`` beside bare faiss), ``bucket`` (single objects on an S3 server that counts reads). Each adds its row
to ``results/millions.json``. Times are processor seconds, because other work shares the machine.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.millions_index import build, build_bare, build_ours, draws, resident, row_file
from benchmarks.mixture import CLASS, DIM, draw_vectors
from benchmarks.rounds import known_rows, write_json
from benchmarks.serving import load_server, vector_requests
from similis.model.index_folder import load_index
from similis.model.load import pretrained
from similis.retrieval.index_build import draw_rows, take_rows
from similis.retrieval.index_kinds import search_codes

OBJECT = 1000
SIMILIS = [sys.executable, "-c", "from similis.cli import main; main()"]


def make(given: argparse.Namespace) -> dict[str, Any]:
    """Tables of features."""
    folder, means = given.folder / "tables", np.random.default_rng(3).standard_normal((given.rows // CLASS, DIM))
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(given.rows // OBJECT):
        path = folder / f"{number // 1000:03d}" / f"{number:06d}.parquet"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            vectors, own = draw_vectors(number, OBJECT, means)
            lists = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), DIM)
            pq.write_table(pa.table({"vector": lists, "class_name": own.astype(str)}), beside := path.with_suffix(".x"))
            beside.replace(path)
    return {"rows": given.rows, "objects": given.rows // OBJECT, "dim": DIM}


def embed(given: argparse.Namespace) -> dict[str, Any]:
    """All tables through ``similis embed``, whose driver or a worker is killed again and again; then every key once."""
    source, out = given.folder / "tables", given.folder / "vectors"
    model = pretrained("identity", weights=None, features=DIM, device="cpu").save(given.folder / "model")
    words = [*SIMILIS, "embed", str(source), str(out), "--model", str(model), "--workers", "2", "--batch", "1000"]
    chance, begun, first, peak, killed = random.Random(0), time.perf_counter(), 0.0, 0, {"driver": 0, "worker": 0}
    driver = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    while driver.poll() is None:
        until = time.perf_counter() + chance.uniform(3, 14)
        while time.perf_counter() < until and driver.poll() is None:
            peak = max(peak, resident(driver.pid))
            if not first and any(out.glob("part-*")):
                first = time.perf_counter() - begun
            time.sleep(0.05)
        if sum(killed.values()) >= given.kills or driver.poll() is not None:
            continue
        workers = [int(each) for each in Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()]
        kind = "worker" if chance.random() < 0.5 and workers else "driver"
        os.kill(chance.choice(workers) if kind == "worker" else driver.pid, signal.SIGKILL)
        killed[kind] += 1
        if kind == "driver":
            driver.wait()
            driver = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    assert driver.returncode == 0
    ids = np.concatenate([pq.read_table(path, columns=["id"])["id"].to_numpy() for path in out.glob("part-*")])
    once = len(ids) == len(set(ids.tolist())) == given.rows
    return {"rows": len(ids), "kills of the driver": killed["driver"],
            "kills of workers": killed["worker"], "every key once": once, "first part, s": first,
            "driver peak, MB": peak / 1e6, "s": time.perf_counter() - begun}  # fmt: skip


def serve(given: argparse.Namespace) -> dict[str, Any]:
    """``similis serve`` over the index, asked by as many connections as go, beside faiss in this process."""
    index, begun = given.folder / f"index-{given.rows}", time.perf_counter()
    words = ["serve", str(given.folder / "model"), "--gallery", str(index), "--port", "0", "--json"]
    server = subprocess.Popen([*SIMILIS, *words], stdout=subprocess.PIPE, text=True)
    port = int(json.loads(server.stdout.readline())["address"].split(":")[2].split("/")[0])
    ready, queries = time.perf_counter() - begun, take_rows(row_file(given), draw_rows(given.rows, 4000, 9))
    requests = vector_requests(torch.from_numpy(queries))
    most = load_server(port, requests, 30.0)
    held = resident(server.pid), resident(server.pid, "RssAnon")
    half = load_server(port, requests, 30.0, len(most) / 60)
    server.terminate()
    server.wait()
    bare = bare_speed(load_index(index), queries)
    return {"rows": given.rows, "ready, s": ready, "queries/s": len(most) / 30, "bare queries/s": bare,
            "p99 at half the rate, ms": 1000 * float(np.quantile(half, 0.99)), "peak MB": held[0] / 1e6,
            "without file pages, MB": held[1] / 1e6}  # fmt: skip


def bucket(given: argparse.Namespace) -> dict[str, Any]:
    """Single objects of moto's S3 server, in a process of its own that counts how often each is read."""
    words = [sys.executable, "-m", "benchmarks.s3_server", str(given.rows)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        address, out, begun = server.stdout.readline().strip(), given.folder / "bucket", time.perf_counter()
        keys = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        words = ["embed", "s3://photos/all", str(out), "--model", "small_conv", "--weights", "none", "--size", "16"]
        driver = subprocess.Popen(
            [*SIMILIS, *words, "--workers", "2"], env=os.environ | keys, stdout=subprocess.DEVNULL
        )
        first, peak = 0.0, 0
        while driver.poll() is None:
            peak = max(peak, resident(driver.pid))
            if not first and any(out.glob("part-*")):
                first = time.perf_counter() - begun
            time.sleep(0.1)
        seconds = time.perf_counter() - begun
        reads = json.loads(server.communicate("\n")[0])
    return {"objects": given.rows, **reads, "first part, s": first, "driver peak, MB": peak / 1e6, "s": seconds}


def bare_speed(index: Any, queries: np.ndarray) -> float:
    """Queries a second, one at a time in each of two threads, by calls of faiss and the product with candidates."""
    vectors, until, done = index.stored.numpy(), time.perf_counter() + 30, [0, 0]
    importlib.import_module("faiss").omp_set_num_threads(1)

    def ask(place: int) -> None:
        while time.perf_counter() < until:
            query = queries[(2 * done[place] + place) % len(queries)]
            found = search_codes(index.codes, index.kind, index.effort, query[None], 10, allowed=None)[0]
            np.argsort(vectors[found[found >= 0]] @ query)[-10:]
            done[place] += 1

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sum(done) / 30


STEPS = {
    "make": make, "embed": embed, "build": build, "build-ours": build_ours, "build-bare": build_bare, "draws": draws,
    "serve": serve, "bucket": bucket,
}  # fmt: skip


def page_rows(figures: dict[str, dict[str, Any]]) -> list[str]:
    """The record as lines of a table: step, rows, what, value."""
    lines = []
    for name, row in figures.items():
        step, rows = name.split()
        for key, value in row.items():
            if isinstance(value, float):
                value = f"{value:,.0f}" if value >= 100 else f"{value:.3f}"  # noqa: PLW2901
            if key not in ("rows", "dim"):
                lines.append(
                    f"| {step} | {int(rows):,} | {key} | {value if not isinstance(value, int) else f'{value:,}'} |"
                )
    return lines


def main() -> None:
    """Run a step and add its row to the record."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("step", choices=STEPS)
    reader.add_argument("--rows", type=int, default=10_000_000)
    reader.add_argument("--folder", type=Path, default=Path("runs/millions"))
    reader.add_argument("--kills", type=int, default=20)
    reader.add_argument("--json", type=Path, default=Path("results/millions.json"))
    given = reader.parse_args()
    row = STEPS[given.step](given)
    print(json.dumps(row))
    if not given.step.startswith("build-"):
        figures = known_rows(given.json) | {f"{given.step} {given.rows}": row}
        write_json(given.json, "python -m benchmarks.millions", figures)


if __name__ == "__main__":
    main()
