"""The tables of ``results/losses.md`` from its record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

PASSES = {"one pass": "one", "two passes": "two", "own law": "own law"}
Figures = dict[str, Any]


def digits(value: float) -> str:
    """Three significant digits, and no more decimals than two.

    Example:
        >>> digits(0.7912), digits(21.64), digits(1152.3)
        ('0.79', '21.6', '1,152')
    """
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def triplet_rows(found: Figures) -> Iterator[str]:
    """Seconds and megabytes at B = 1,024."""
    seconds, memory = found["seconds"], {name: each / 1e6 for name, each in found["bytes"].items()}
    yield f"| seconds | {seconds['ours']:.3f} | {seconds['peer']:.2f} | {found['speed_up']:.0f} times faster |"
    yield f"| MB | {digits(memory['ours'])} | {digits(memory['peer'])} | {found['less_memory']:.0f} times less |"


def limit_rows(found: Figures) -> Iterator[str]:
    """Losses of one pass, of two, and of their own law, each by its ratio."""
    for kind, word in PASSES.items():
        for label, ratio in sorted(found[kind].items(), key=lambda row: row[1]):
            yield f"| {label} | {word} | {ratio:.2f} |"


def peer_rows(found: Figures) -> Iterator[str]:
    """Losses and batches in the order of the record; less than 0.1 MB is the noise of the measure."""
    for label, row in found.items():
        if "ours_bytes" in row:
            name, _, size = label.rpartition(" ")
            memory = ("below 0.1" if row[key] < 1e5 else digits(row[key] / 1e6) for key in ("ours_bytes", "peer_bytes"))
            yield f"| {name} | {int(size):,} | {digits(row['speed_up'])} | {' | '.join(memory)} |"


def class_rows(found: Figures) -> Iterator[str]:
    """Memory beyond weights and gradient over C."""
    for name, row in found.items():
        cells = [f"{each / 1e6:,.0f}" for each in row["beyond_bytes"]]
        yield f"| {name} | {' | '.join(cells)} | {row['exponent']:.2f} |"


TABLES: dict[str, Callable[[Figures], Iterator[str]]] = {
    "triplets": triplet_rows, "limit": limit_rows, "peers": peer_rows, "proxy_peers": peer_rows, "classes": class_rows,
}  # fmt: skip


def page_rows(figures: Figures) -> Iterator[str]:
    """Lines of all tables that the record has."""
    for name, rows in TABLES.items():
        if name in figures:
            yield from rows(figures[name])
