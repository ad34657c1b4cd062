"""Losses beside a bare program, from the record: ``python -m benchmarks.loss_page results/losses.json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PASSES = {"one pass": "one", "two passes": "two", "own law": "own law"}


def limit_rows(found: dict[str, Any]) -> Iterator[str]:
    """Losses of one pass, of two, and of their own law, each by its ratio."""
    for kind, word in PASSES.items():
        for label, ratio in sorted(found[kind].items(), key=lambda row: row[1]):
            yield f"| {label} | {word} | {ratio:.2f} |"


def main() -> None:
    """Print the table."""
    found = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["figures"]["limit"]
    print("\n".join(limit_rows(found)))


if __name__ == "__main__":
    main()
