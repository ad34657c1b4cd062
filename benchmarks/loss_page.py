"""The tables of ``results/losses.md`` from its record: ``python -m benchmarks.loss_page results/losses.json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PASSES = {"one pass": "one", "two passes": "two", "own law": "own law"}


def digits(value: float) -> str:
    """Three significant digits.

    Example:
        >>> digits(0.7912), digits(21.64), digits(1152.3)
        ('0.79', '21.6', '1,152')
    """
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def megabytes(count: float) -> str:
    """A rise of memory; less than 0.1 MB is the noise of the measure."""
    return "below 0.1" if count < 1e5 else digits(count / 1e6)


def limit_rows(found: dict[str, Any]) -> Iterator[str]:
    """Losses of one pass, of two, and of their own law, each by its ratio."""
    for kind, word in PASSES.items():
        for label, ratio in sorted(found[kind].items(), key=lambda row: row[1]):
            yield f"| {label} | {word} | {ratio:.2f} |"


def peer_rows(found: dict[str, Any]) -> Iterator[str]:
    """Losses and batches in the order of the record."""
    for label, row in found.items():
        if "ours_bytes" in row:
            name, _, size = label.rpartition(" ")
            cells = digits(row["speed_up"]), megabytes(row["ours_bytes"]), megabytes(row["peer_bytes"])
            yield f"| {name} | {int(size):,} | {' | '.join(cells)} |"


def class_rows(found: dict[str, Any]) -> Iterator[str]:
    """Memory beyond weights and gradient over C."""
    for name, row in found.items():
        cells = [f"{each / 1e6:,.0f}" for each in row["beyond_bytes"]]
        yield f"| {name} | {' | '.join(cells)} | {row['exponent']:.2f} |"


TABLES: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "limit": limit_rows,
    "peers": peer_rows,
    "proxy_peers": peer_rows,
    "classes": class_rows,
}


def page_rows(figures: dict[str, Any]) -> dict[str, list[str]]:
    """Row of the benchmark -> lines of its table, for those that the record has."""
    return {name: list(rows(figures[name])) for name, rows in TABLES.items() if name in figures}


def main() -> None:
    """Print the tables."""
    for name, rows in page_rows(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["figures"]).items():
        print(f"\n{name}\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
