"""Losses against the peer, against the limit, and at sizes that need tiles.

``python -m benchmarks.losses [--only ROW] [--rounds 7] [--threads 1] [--json FILE [--resume]]``; ROW is one of
triplets, peers, proxy_peers, limit, classes, memory, cache, which take about 3, 20, 6, 8, 6, 0.5 and 1.5 minutes on two
idle cores. Rows are written to the file as they end; ``--resume`` leaves out those that it holds.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks import loss_cases as cases
from benchmarks.loss_page import page_rows
from benchmarks.rounds import alternate, arguments, measure_rows, median, median_ratio, peak_memory, ratio_interval

HERE = "benchmarks.loss_cases"
MB = 1e6
SMALL = 128  # a step of this batch takes milliseconds, so that it takes more turns to see a ratio
Figures = dict[str, Any]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope of log(value) on log(size)."""
    x, y = [math.log(s) for s in sizes], [math.log(max(v, 1e-9)) for v in values]
    return statistics.linear_regression(x, y).slope


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


def against_peers(rounds: int) -> Figures:
    """Every pair and triplet loss that both have, at three batch sizes or the largest that the peer gets through."""
    found: Figures = {}
    for label, (name, options, peer, given, most) in cases.PEERS.items():
        for size in sorted({min(size, most) for size in (128, 512, 2048)}):
            ours, theirs = [name, options, size, 128], [peer, given, size, 128]
            found[f"{label} {size}"] = beside(f"{label} {size}", ours, theirs, "peers", rounds)
    measured = list(found.values())
    keys = ("speed_up", "less_memory")
    found["geometric"] = {key: statistics.geometric_mean([row[key] for row in measured]) for key in keys}
    found["median"] = {key: median([row[key] for row in measured]) for key in keys}
    return found


def against_proxy_peers(rounds: int, number: int = 1000) -> Figures:
    """Losses with class vectors that both have, C = 1,000."""
    found: Figures = {}
    for label, (name, options, peer, given) in cases.PROXY_PEERS.items():
        for size in (128, 512, 2048):
            ours, theirs = [name, options, size, 128, number], [peer, given, size, 128, number]
            found[f"{label} {size}"] = beside(f"{label} {size}", ours, theirs, "proxy_peers", rounds)
    return found


def limit(rounds: int, size: int = 8192, dim: int = 512) -> Figures:
    """Losses in tiles against the bare program."""
    groups = {"one pass": cases.ONE_PASS, "two passes": cases.TWO_PASS, "own law": cases.OWN_LAW}
    x, _ = cases.batch(size, dim)
    steps: dict[str, Callable[[], object]] = {"bare": cases.bare(x, x)}
    for group in groups.values():
        steps |= {label: cases.ours(label.split()[0], options, size, dim) for label, options in group.items()}
    turns = alternate(steps, rounds)
    found = {kind: {label: median_ratio(turns, label, "bare") for label in group} for kind, group in groups.items()}
    return {"B": size, "d": dim, "bare_seconds": median(turns["bare"]), **found}


def classes(_: int) -> Figures:
    """Peak memory beyond the weights' gradient over a 16-fold range of classes."""
    found: Figures = {}
    sizes = [62_500, 250_000, 1_000_000]
    for name, options in cases.PROXIES.items():
        depth = options.get("centers", options.get("subproxies", 1))
        beyond = []
        for number in sizes:
            rise = peak_memory(f"{HERE}:over_classes", name, number, 128, 256, options)
            beyond.append(rise - number * depth * 128 * 4)
        found[name] = {"C": sizes, "beyond_bytes": beyond, "exponent": exponent(sizes, beyond)}
        print(name, found[name], file=sys.stderr, flush=True)
    return found


def memory(_: int) -> Figures:
    """A cross-batch memory of a million rows: what two steps add to it."""
    return {"rise_bytes": peak_memory(f"{HERE}:remembered", 1_000_000, 128, 256)}


def cache(_: int) -> Figures:
    """8,192 images with the activations of 64, and all at once."""
    return {str(chunk): peak_memory(f"{HERE}:cached", 8192, chunk) for chunk in (64, 0)}


ROWS: dict[str, Callable[[int], Figures]] = {
    "triplets": triplets, "peers": against_peers, "proxy_peers": against_proxy_peers, "limit": limit,
    "classes": classes, "memory": memory, "cache": cache,
}  # fmt: skip
MORE: dict[str, dict[str, Any]] = {
    "--threads": {"type": int, "default": 1, "help": "threads of both contestants"},
    "--resume": {"action": "store_true", "help": "leave out rows that the file holds already"},
}


def main() -> None:
    """Measure the rows that were asked for, and print the tables of the page."""
    given = arguments("Losses: the peer, the limit, many classes.", list(ROWS), MORE)
    torch.set_num_threads(given.threads)
    figures = measure_rows("losses", given, ROWS, lambda row: ROWS[row](given.rounds), again=not given.resume)
    print("\n".join(page_rows(figures)))


if __name__ == "__main__":
    main()
