"""What does selecting on test flatter? ``python -m benchmarks.selection [--json results/selection.json]``.

From the committed records of ``results/selection``: one side chooses epoch and settings on the test classes, the other
on validation classes, after which all training classes train. A repetition has the same seeds on both sides, so sides
are compared in pairs, and repetitions are the unit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.rounds import arguments, write_json
from similis.study.tournament_folder import TournamentFolder

FOLDER = Path(__file__).parent.parent / "results" / "selection"
SIDES = ("validation", "test")
Records = dict[str, list[dict[str, Any]]]


def finished(side: str, kind: str) -> Records:
    """Loss -> the records of its repetitions, in their order."""
    found: Records = {}
    for record in sorted(TournamentFolder(FOLDER / side).records.all(kind), key=lambda each: each["repetition"]):
        found.setdefault(record["contestant"], []).append(record)
    return found


def mean_interval(values: list[float], intervals: int = 1) -> list[float]:
    """The mean with its 95 % interval (Student), simultaneous over so many (Bonferroni)."""
    low, high = stats.t.interval(1 - 0.05 / intervals, len(values) - 1, np.mean(values), stats.sem(values))
    return [float(np.mean(values)), float(low), float(high)]


def measure() -> dict[str, Any]:
    """Loss -> what selecting on test adds, in points of R@1."""
    held, flattered = (finished(side, "final") for side in SIDES)
    searches = [finished(side, "search") for side in SIDES]
    found = {}
    for name in sorted(held):
        sides = [[100 * each["test"]["recall@1"] for each in side[name]] for side in (held, flattered)]
        gains = [b - a for a, b in zip(*sides, strict=True)]
        chosen = [side[name] for side in searches]
        found[name] = {
            "repetitions": len(gains),
            "means": [float(np.mean(side)) for side in sides],
            "gains": gains,
            "gain": mean_interval(gains),
            "same settings": [a["settings"] == b["settings"] for a, b in zip(*chosen, strict=True)],
            "epochs": [[each["epochs"] for each in side[name]] for side in (held, flattered)],
            "best epoch over last": [100 * (max(each["history"]) - each["history"][-1]) for each in flattered[name]],
        }  # fmt: skip
    return found


def main() -> None:
    """Print and write the numbers."""
    asked = arguments(__doc__ or "", [])
    found = measure()
    print(json.dumps(found, indent=1))
    write_json(asked.json, "python -m benchmarks.selection", found)


if __name__ == "__main__":
    main()
