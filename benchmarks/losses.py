"""Losses against the peer, against the limit, and at sizes that need tiles.

``python -m benchmarks.losses [--only ROW] [--rounds 7] [--threads 1] [--json FILE [--resume]]``; ROW is one of
triplets, peers, proxy_peers, limit, classes, memory, cache. Rows are written to the file as they end; ``--resume``
leaves out those that it holds.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import loss_cases as cases
from benchmarks.rounds import alternate, median, median_ratio, peak_memory, print_table, ratio_interval, write_json

HERE = "benchmarks.loss_cases"
MB = 1e6
SMALL = 128  # a step of this batch takes milliseconds, so that it takes more turns to see a ratio
Figures = dict[str, Any]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope of log(value) on log(size)."""
    x, y = [math.log(s) for s in sizes], [math.log(max(v, 1e-9)) for v in values]
    a, b = sum(x) / len(x), sum(y) / len(y)
    return sum((p - a) * (q - b) for p, q in zip(x, y, strict=True)) / sum((p - a) ** 2 for p in x)


def geometric(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(math.log(v) for v in values) / len(values))


def triplets(rounds: int) -> Figures:
    """All triplets: the peer at 1,024, the law of time and memory, 16,384 anchors."""
    name, options, peer, given, _ = cases.PEERS["triplet"]
    turns = alternate(
        {"ours": cases.ours(name, options, 1024, 128), "peer": cases.peers(peer, given, 1024, 128)}, rounds
    )
    memory = {
        "ours": peak_memory(f"{HERE}:ours", name, options, 1024, 128),
        "peer": peak_memory(f"{HERE}:peers", peer, given, 1024, 128),
    }
    sizes = [512, 1024, 2048, 4096, 8192]
    times = [median(v) for v in alternate({str(b): cases.ours(name, options, b, 128) for b in sizes}, 3).values()]
    found: Figures = {
        "speed_up": 1 / median_ratio(turns, "ours", "peer"),
        "interval": ratio_interval(turns, "peer", "ours"),
        "less_memory": memory["peer"] / memory["ours"],
        "seconds": {k: median(v) for k, v in turns.items()},
        "bytes": memory,
        "time": {"B": sizes, "seconds": times, "exponent": exponent(sizes, times)},
    }
    small = [1024, 2048, 4096, 8192, 16384]
    peaks = [peak_memory(f"{HERE}:ours", name, options, b, 128) for b in small]
    found["memory"] = {"B": small, "bytes": peaks, "exponent": exponent(small, peaks)}
    print_table(
        "All triplets, d = 128, four images of a class",
        ["B = 1,024", "ours", "peer", "ratio", "95 % interval over rounds"],
        [
            [
                "seconds",
                found["seconds"]["ours"],
                found["seconds"]["peer"],
                found["speed_up"],
                "{:.2f} to {:.2f}".format(*found["interval"]),
            ],
            ["MB", memory["ours"] / MB, memory["peer"] / MB, found["less_memory"], ""],
        ],
    )
    print_table("The law", ["B", "seconds"], [*zip(sizes, times, strict=True), ("exponent", found["time"]["exponent"])])
    rows = [*((b, m / MB) for b, m in zip(small, peaks, strict=True)), ("exponent", found["memory"]["exponent"])]
    print_table("Peak memory", ["B", "MB"], rows)
    return found


def beside(label: str, ours: list[Any], theirs: list[Any], kind: str, rounds: int) -> Figures:
    """Speed and memory of one step of ours and of the peer's."""
    size = ours[2]
    turns = alternate(
        {"ours": cases.ours(*ours), "peer": getattr(cases, kind)(*theirs)}, rounds if size > SMALL else 9 * rounds
    )
    found: Figures = {
        "speed_up": 1 / median_ratio(turns, "ours", "peer"),
        "interval": ratio_interval(turns, "peer", "ours"),
        "ours_bytes": peak_memory(f"{HERE}:ours", *ours),
        "peer_bytes": peak_memory(f"{HERE}:{kind}", *theirs),
    }
    # a rise below a megabyte is the noise of the measure
    found["less_memory"] = max(found["peer_bytes"], MB) / max(found["ours_bytes"], MB)
    print(label, *found.values(), file=sys.stderr, flush=True)
    return found


def peer_table(title: str, found: Figures) -> None:
    """The table of a row beside the peer."""
    rows = [
        (
            k,
            v["speed_up"],
            "{:.2f} to {:.2f}".format(*v["interval"]) if "interval" in v else "",
            v.get("ours_bytes", 0) / MB,
            v.get("peer_bytes", 0) / MB,
            v["less_memory"],
        )
        for k, v in found.items()
    ]
    columns = ["loss", "times faster", "95 % interval over rounds", "our MB", "its MB", "times less (1 MB at least)"]
    print_table(title, columns, rows)


def against_peers(rounds: int) -> Figures:
    """Every pair and triplet loss that both have, at three batch sizes or the largest that the peer gets through."""
    found: Figures = {}
    for label, (name, options, peer, given, most) in cases.PEERS.items():
        for size in sorted({min(size, most) for size in (128, 512, 2048)}):
            ours, theirs = [name, options, size, 128], [peer, given, size, 128]
            found[f"{label} {size}"] = beside(f"{label} {size}", ours, theirs, "peers", rounds)
    measured = list(found.values())
    keys = ("speed_up", "less_memory")
    found["geometric"] = {key: geometric([row[key] for row in measured]) for key in keys}
    found["median"] = {key: median([row[key] for row in measured]) for key in keys}
    peer_table("Against the peer, d = 128", found)
    return found


def against_proxy_peers(rounds: int, number: int = 1000) -> Figures:
    """Losses with class vectors that both have, C = 1,000."""
    found: Figures = {}
    for label, (name, options, peer, given) in cases.PROXY_PEERS.items():
        for size in (128, 512, 2048):
            ours, theirs = [name, options, size, 128, number], [peer, given, size, 128, number]
            found[f"{label} {size}"] = beside(f"{label} {size}", ours, theirs, "proxy_peers", rounds)
    peer_table(f"Class vectors against the peer, C = {number}, d = 128", found)
    return found


def limit(rounds: int, size: int = 8192, dim: int = 512) -> Figures:
    """Losses in tiles against the bare program."""
    groups = {"one pass": cases.ONE_PASS, "two passes": cases.TWO_PASS, "own law": cases.OWN_LAW}
    steps: dict[str, Callable[[], object]] = {"bare": cases.bare(size, dim)}
    for group in groups.values():
        steps |= {label: cases.ours(name, options, size, dim) for label, (name, options) in group.items()}
    turns = alternate(steps, rounds)
    found = {kind: {label: median_ratio(turns, label, "bare") for label in group} for kind, group in groups.items()}
    rows = [
        (label, kind, ratio, "{:.2f} to {:.2f}".format(*ratio_interval(turns, label, "bare")))
        for kind, group in found.items()
        for label, ratio in group.items()
    ]
    columns = ["loss", "law", "of the bare program", "95 % interval over rounds"]
    print_table(f"Against the bare program, B = {size}, d = {dim}", columns, rows)
    return {"B": size, "d": dim, "bare_seconds": median(turns["bare"]), **found}


def classes(_: int) -> Figures:
    """Peak memory beyond the weights' gradient over a 16-fold range of classes."""
    found: Figures = {}
    rows = []
    sizes = [62_500, 250_000, 1_000_000]
    for name, options in cases.PROXIES.items():
        depth = options.get("centers", options.get("subproxies", 1))
        beyond = []
        for number in sizes:
            rise = peak_memory(f"{HERE}:over_classes", name, number, 128, 256, options)
            beyond.append(rise - number * depth * 128 * 4)
        found[name] = {"C": sizes, "beyond_bytes": beyond, "exponent": exponent(sizes, beyond)}
        rows.append((name, *(b / MB for b in beyond), found[name]["exponent"]))
        print(*rows[-1], file=sys.stderr, flush=True)
    print_table(
        "MB beyond weights and gradient, d = 128, B = 256", ["loss", *(f"C = {c}" for c in sizes), "exponent"], rows
    )
    return found


def memory(_: int) -> Figures:
    """A cross-batch memory of a million rows: what two steps add to it."""
    rise = peak_memory(f"{HERE}:remembered", 1_000_000, 128, 256)
    print_table("Memory of 1,000,000 x 128 (512 MB), two steps", ["", "MB"], [("rise", rise / MB)])
    return {"rise_bytes": rise}


def cache(_: int) -> Figures:
    """8,192 images with the activations of 64, and all at once."""
    found = {str(chunk): peak_memory(f"{HERE}:cached", 8192, chunk) for chunk in (64, 0)}
    rows = [("activations of 64", found["64"] / MB), ("activations of all", found["0"] / MB)]
    print_table("Gradient caching, 8,192 images of 32 x 32", ["", "rise in MB"], rows)
    return found


# row: function, and its minutes on two idle cores with seven rounds, one thread
ROWS: dict[str, tuple[Callable[[int], Figures], float]] = {
    "triplets": (triplets, 3.0),
    "peers": (against_peers, 20.0),
    "proxy_peers": (against_proxy_peers, 6.0),
    "limit": (limit, 8.0),
    "classes": (classes, 6.0),
    "memory": (memory, 0.5),
    "cache": (cache, 1.5),
}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Losses: the peer, the limit, many classes.")
    parser.add_argument("--only", choices=list(ROWS), default=None, help="measure this row alone")
    parser.add_argument("--rounds", type=int, default=7, help="how often each contestant takes its turn")
    parser.add_argument("--threads", type=int, default=1, help="threads of both contestants")
    parser.add_argument("--json", type=Path, default=None, help="also write the figures to this file")
    parser.add_argument("--resume", action="store_true", help="leave out rows that the file holds already")
    return parser.parse_args()


def main() -> None:
    """Measure the rows that were asked for; figures of other rows in the file are kept."""
    given = arguments()
    torch.set_num_threads(given.threads)
    path: Path | None = given.json
    figures = json.loads(path.read_text())["figures"] if path is not None and path.exists() else {}
    names = [given.only] if given.only else list(ROWS)
    names = [name for name in names if not (given.resume and name in figures)]
    minutes = sum(ROWS[name][1] for name in names)
    print(f"{', '.join(names) or 'nothing left'}: about {minutes:.0f} minutes with seven rounds on two idle cores")
    for name in names:
        begin = time.perf_counter()
        figures[name] = ROWS[name][0](given.rounds)
        print(f"{name}: {(time.perf_counter() - begin) / 60:.1f} minutes\n", flush=True)
        write_json(path, "python -m benchmarks.losses", figures)


if __name__ == "__main__":
    main()
