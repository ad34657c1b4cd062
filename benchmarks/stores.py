"""Killed loads into vector stores: ``python -m benchmarks.stores [--only STORE] [--rows N] [--json FILE]``.

Each script ``examples/store_*.py`` loads synthetic vectors of 128 dimensions in 100 part files: a million into LanceDB
and pgvector, 20,000 into Qdrant, whose local mode is not meant for more. It is killed with SIGKILL ten times, started
again each time, and left alone the eleventh time. A kill comes up to half a second after an attempt has added rows and
the store has reached a share of all; shares and delays are drawn with a fixed seed, one share in each of the first
ten elevenths. Then all ids are read from the store: each must be there once. ``--json`` keeps a file's other stores.

Not dependencies: ``pip install lancedb qdrant-client psycopg2-binary pgserver`` (PostgreSQL with pgvector).
"""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.rounds import arguments, measure_rows

EXAMPLES = Path(__file__).parents[1] / "examples"
PARTS, DIMENSIONS, KILLS = 100, 128, 10
STORES = {"lancedb": 1_000_000, "pgvector": 1_000_000, "qdrant": 20_000}
PACKAGES = ("lancedb", "pgserver", "psycopg2-binary", "pyarrow", "qdrant-client")


def write_parts(folder: Path, rows: int) -> None:
    """Random vectors, in the layout of ``similis embed``."""
    generator = np.random.default_rng(0)
    for number, part in enumerate(np.array_split(np.arange(rows), PARTS)):
        numbers = generator.standard_normal(len(part) * DIMENSIONS, dtype=np.float32)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), DIMENSIONS)
        table = pa.table({"id": [f"photos/{row:08d}.jpg" for row in part], "vector": vectors})
        pq.write_table(table, folder / f"part-{number:06d}.parquet", use_dictionary=["id"])


def lance_table(address: str) -> Any:
    return import_module("lancedb").connect(address).open_table("photos")


def ask_postgres(address: str, what: str) -> list[Any]:
    with closing(import_module("psycopg2").connect(address)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {what} FROM photos")
        return [value for (value,) in cursor.fetchall()]


def count_rows(name: str, address: str) -> int:
    """Rows of a store that a loader has open; 0 before there is a table, which each store says in its own way."""
    with suppress(Exception):
        if name == "lancedb":
            return int(lance_table(address).count_rows())
        if name == "pgvector":
            return int(ask_postgres(address, "count(*)")[0])
        points = sqlite3.connect(f"file:{address}/collection/photos/storage.sqlite?mode=rw", uri=True)
        with closing(points):  # in its file: the loader's client locks others out
            return int(points.execute("SELECT count(*) FROM points").fetchone()[0])
    return 0


def read_ids(name: str, address: str) -> list[str]:
    """The id of each row of a store."""
    if name == "lancedb":
        return list(lance_table(address).to_arrow()["id"].to_pylist())
    if name == "pgvector":
        return ask_postgres(address, "id")
    with closing(import_module("qdrant_client").QdrantClient(path=address)) as client:
        return [point.payload["id"] for point in client.scroll("photos", limit=10**9)[0]]


def measure(name: str, rows: int) -> dict[str, Any]:
    """Load with kills, then read the ids from the store."""
    drawn, left = random.Random(0), [0]
    with ExitStack() as stack:
        parts, address = (stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2))
        if name == "pgvector":
            address = stack.enter_context(import_module("pgserver").get_server(address)).get_uri()
        write_parts(Path(parts), rows)
        command = [sys.executable, str(EXAMPLES / f"store_{name}.py"), parts, address]
        for number in range(KILLS):
            target = max((number + drawn.random()) / (KILLS + 1) * rows, left[-1] + 1)
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as loader:
                while loader.poll() is None and count_rows(name, address) < target:
                    time.sleep(0.1)
                time.sleep(drawn.random() / 2)
                loader.kill()
            if loader.returncode != -signal.SIGKILL:
                raise RuntimeError(f"{name} ended with {loader.returncode} before its kill at {target:,.0f} rows")
            left.append(count_rows(name, address))
            print(f"{name}: killed with {left[-1]:,} of {rows:,} rows", flush=True)
        begin = time.perf_counter()
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
        seconds, ids = time.perf_counter() - begin, read_ids(name, address)
    return {
        "rows": rows, "kills": KILLS, "rows after each kill": left[1:], "rows found": len(ids),
        "distinct ids": len(set(ids)), "agreeing queries": int(printed.split()[2]),
        "seconds of the last attempt": seconds, "versions": {each: version(each) for each in PACKAGES},
    }  # fmt: skip


def main() -> None:
    more = {"--rows": {"type": int, "help": "vectors, instead of the number of each store"}}
    asked = arguments(__doc__, list(STORES), more)
    measure_rows("stores", asked, STORES, lambda name: measure(name, asked.rows or STORES[name]))


if __name__ == "__main__":
    main()
