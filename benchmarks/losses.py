"""Losses against the peer, against the limit, and at sizes that need tiles.

``python -m benchmarks.losses [--only ROW] [--rounds 7] [--json FILE]``; ROW is one of
triplets, peers, limit, classes, between, memory, cache.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import loss_cases as cases
from benchmarks.rounds import alternate, arguments, median, median_ratio, peak_memory, print_table, write_json

HERE = "benchmarks.loss_cases"
MB = 1e6
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
        ["B = 1,024", "ours", "peer", "ratio"],
        [
            ["seconds", found["seconds"]["ours"], found["seconds"]["peer"], found["speed_up"]],
            ["MB", memory["ours"] / MB, memory["peer"] / MB, found["less_memory"]],
        ],
    )
    print_table("The law", ["B", "seconds"], [*zip(sizes, times, strict=True), ("exponent", found["time"]["exponent"])])
    rows = [*((b, m / MB) for b, m in zip(small, peaks, strict=True)), ("exponent", found["memory"]["exponent"])]
    print_table("Peak memory", ["B", "MB"], rows)
    return found


def against_peers(rounds: int) -> Figures:
    """Every pair and triplet loss that both have, at three batch sizes."""
    found: Figures = {}
    rows = []
    for label, (name, options, peer, given, most) in cases.PEERS.items():
        for size in (128, 512, 2048):
            theirs = min(size, most)
            if theirs < size and size > 512:
                continue
            pair = {"ours": cases.ours(name, options, theirs, 128), "peer": cases.peers(peer, given, theirs, 128)}
            turns = alternate(pair, rounds if theirs <= 512 else min(rounds, 3))
            small = peak_memory(f"{HERE}:ours", name, options, theirs, 128)
            large = peak_memory(f"{HERE}:peers", peer, given, theirs, 128)
            faster = 1 / median_ratio(turns, "ours", "peer")
            found[f"{label} {theirs}"] = {"speed_up": faster, "ours_bytes": small, "peer_bytes": large}
            rows.append((f"{label}, B = {theirs}", faster, small / MB, large / MB, large / max(small, MB)))
            print(*rows[-1], file=sys.stderr, flush=True)
    found["geometric"] = {"speed_up": geometric([r[1] for r in rows]), "less_memory": geometric([r[4] for r in rows])}
    rows.append(("geometric mean", found["geometric"]["speed_up"], "", "", found["geometric"]["less_memory"]))
    print_table(
        "Against the peer, d = 128", ["loss", "times faster", "our MB", "its MB", "times less (1 MB at least)"], rows
    )
    return found


def limit(rounds: int, size: int = 8192, dim: int = 512) -> Figures:
    """Losses in tiles against the bare program."""
    groups = {"one pass": cases.ONE_PASS, "two passes": cases.TWO_PASS, "own law": cases.OWN_LAW}
    steps: dict[str, Callable[[], object]] = {"bare": cases.bare(size, dim)}
    for group in groups.values():
        steps |= {label: cases.ours(name, options, size, dim) for label, (name, options) in group.items()}
    turns = alternate(steps, rounds)
    found = {kind: {label: median_ratio(turns, label, "bare") for label in group} for kind, group in groups.items()}
    rows = [(label, kind, ratio) for kind, group in found.items() for label, ratio in group.items()]
    print_table(f"Against the bare program, B = {size}, d = {dim}", ["loss", "law", "of the bare program"], rows)
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


def between(_: int) -> Figures:
    """The two losses that compare class vectors with class vectors."""
    number = 20_000
    named: dict[str, tuple[str, dict[str, Any]]] = {
        "proxy_repulsion samples": ("proxy_repulsion", {"form": "samples"}),
        "proxy_repulsion proxies": ("proxy_repulsion", {"form": "proxies"}),
        "proxy_gml": ("proxy_gml", {"subproxies": 2, "neighbors": 20}),
    }
    found: Figures = {}
    for label, (name, options) in named.items():
        rise = peak_memory(f"{HERE}:over_classes", name, number, 128, 256, options)
        turns = alternate({"step": cases.over_classes(name, number, 128, 256, options)}, 1, warm=0)
        found[label] = {"rise_bytes": rise, "seconds": turns["step"][0]}
    rows = [(k, v["rise_bytes"] / MB, v["seconds"]) for k, v in found.items()]
    print_table(f"Classes against classes, C = {number}, d = 128", ["loss", "rise in MB", "seconds"], rows)
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


ROWS: dict[str, Callable[[int], Figures]] = {
    "triplets": triplets,
    "peers": against_peers,
    "limit": limit,
    "classes": classes,
    "between": between,
    "memory": memory,
    "cache": cache,
}


def main() -> None:
    """Measure the rows that were asked for; figures of other rows in the file are kept."""
    given = arguments("Losses: the peer, the limit, many classes.", list(ROWS))
    path: Path | None = given.json
    figures = json.loads(path.read_text())["figures"] if path is not None and path.exists() else {}
    for name in [given.only] if given.only else list(ROWS):
        figures[name] = ROWS[name](given.rounds)
        write_json(path, "python -m benchmarks.losses", figures)


if __name__ == "__main__":
    main()
