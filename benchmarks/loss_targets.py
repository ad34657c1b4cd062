"""What ``benchmarks.losses`` is to show, and whether its figures show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.rounds import print_table

Figures = dict[str, Any]
MB = 1e6
FIFTY = ("nt_xent 512", "lifted song 512", "lifted generalised 512")


class Target(NamedTuple):
    """A figure and its bound: at least (``>=``) or at most (``<=``)."""

    row: str
    what: str
    value: float
    sign: str
    bound: float

    @property
    def met(self) -> bool:
        """Whether the bound is kept."""
        return self.value >= self.bound if self.sign == ">=" else self.value <= self.bound


def targets(figures: Figures) -> Iterator[Target]:
    """The targets of the rows that were measured."""
    for row, of_row in {
        "triplets": of_triplets,
        "peers": of_peers,
        "proxy_peers": of_proxy_peers,
        "limit": of_limit,
        "classes": of_classes,
        "between": of_between,
        "sampled": of_sampled,
    }.items():
        if row in figures:
            yield from of_row(figures[row])


def of_triplets(f: Figures) -> Iterator[Target]:
    """All triplets: the peer at 1,024, the exponents, 16,384 anchors."""
    yield Target("triplets", "times faster, B = 1,024", f["speed_up"], ">=", 20)
    yield Target("triplets", "times less memory, B = 1,024", f["less_memory"], ">=", 10)
    yield Target("triplets", "exponent of time", f["time"]["exponent"], "<=", 2.3)
    yield Target("triplets", "exponent of memory", f["memory"]["exponent"], "<=", 1.2)
    yield Target("triplets", "MB at B = 16,384", f["memory"]["bytes"][-1] / MB, "<=", 4000)


def of_peers(f: Figures) -> Iterator[Target]:
    """Never slower, the two that blow up, both means."""
    for name in FIFTY:
        if name in f:
            yield Target("peers", f"times faster, {name}", f[name]["speed_up"], ">=", 50)
    slowest = min((v["speed_up"], k) for k, v in f.items() if "ours_bytes" in v)
    yield Target("peers", f"least times faster ({slowest[1]})", slowest[0], ">=", 1)
    yield Target("peers", "times faster, geometric mean", f["geometric"]["speed_up"], ">=", 5)
    yield Target("peers", "times less memory, geometric mean", f["geometric"]["less_memory"], ">=", 5)


def of_proxy_peers(f: Figures) -> Iterator[Target]:
    """Never slower."""
    slowest = min((v["speed_up"], k) for k, v in f.items())
    yield Target("proxy_peers", f"least times faster ({slowest[1]})", slowest[0], ">=", 1)


def of_limit(f: Figures) -> Iterator[Target]:
    """The bare program."""
    for kind, bound in (("one pass", 1.6), ("two passes", 2.4)):
        for name, ratio in f[kind].items():
            yield Target("limit", f"{name}, {kind}", ratio, "<=", bound)


def of_classes(f: Figures) -> Iterator[Target]:
    """A million classes."""
    for name, v in f.items():
        yield Target("classes", f"{name}, MB beyond at C = 1,000,000", v["beyond_bytes"][-1] / MB, "<=", 256)
        yield Target("classes", f"{name}, exponent", v["exponent"], "<=", 0.15)


def of_between(f: Figures) -> Iterator[Target]:
    """Less than the matrix of 20,000 x 20,000 similarities, by four."""
    for name, v in f.items():
        yield Target("between", f"{name}, MB at C = 20,000", v["rise_bytes"] / MB, "<=", 400)


def of_sampled(f: Figures) -> Iterator[Target]:
    """A step over a sample of a million classes."""
    for name, v in f.items():
        yield Target("sampled", f"{name}, MB at C = 1,000,000", v["rise_bytes"][-1] / MB, "<=", 256)


def print_verdicts(figures: Figures) -> None:
    """Every target with its figure; nothing if no row has one."""
    found = list(targets(figures))
    if found:
        rows = [(t.row, t.what, t.value, f"{t.sign} {t.bound:g}", "met" if t.met else "MISSED") for t in found]
        print_table("Targets", ["row", "what", "figure", "target", ""], rows)
