"""What does selecting on test flatter? ``python -m benchmarks.selection [--json results/selection.json]``.

From the committed records of ``results/selection``: one side chooses epoch and settings on the test classes, the other
on validation classes, after which all training classes train. Repetitions are the unit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.rounds import arguments, write_json
from similis.study.tournament_folder import TournamentFolder

FOLDER = Path(__file__).parent.parent / "results" / "selection"
SIDES = ("validation", "test")


def recalls(side: str) -> dict[str, list[float]]:
    """Loss -> R@1 of its repetitions in per cent."""
    found = defaultdict(list)
    for record in TournamentFolder(FOLDER / side).records.all("final"):
        found[record["contestant"]].append(100 * record["test"]["recall@1"])
    return dict(found)


def compare_sides(held: list[float], flattered: list[float]) -> dict[str, Any]:
    """Means, their difference with its 95 % interval (Welch), and the smallest difference found with 80 % power."""
    test = stats.ttest_ind(flattered, held, equal_var=False)
    low, high = test.confidence_interval()
    deviation = float(np.sqrt((np.var(held, ddof=1) + np.var(flattered, ddof=1)) / 2))
    return {
        "repetitions": [len(held), len(flattered)],
        "validation": held,
        "test": flattered,
        "means": [float(np.mean(held)), float(np.mean(flattered))],
        "difference": [float(np.mean(flattered) - np.mean(held)), float(low), float(high)],
        "deviation": deviation,
        "detectable": detectable(min(len(held), len(flattered)), deviation),
    }


def detectable(number: int, deviation: float, power: float = 0.8) -> float:
    """The difference of two groups of this size that Student's test finds with this power.

    Example:
        >>> round(detectable(5, 1.5), 1)
        3.0
    """
    freedom = 2 * number - 2
    critical = stats.t.ppf(0.975, freedom)
    grid = np.arange(0.1, 20, 0.005)
    enough = 1 - stats.nct.cdf(critical, freedom, grid * np.sqrt(number / 2)) >= power
    return float(grid[enough][0] * deviation)


def measure() -> dict[str, Any]:
    """Loss -> what selecting on test adds."""
    held, flattered = (recalls(side) for side in SIDES)
    return {name: compare_sides(held[name], flattered[name]) for name in sorted(held)}


def page_rows(found: dict[str, Any]) -> Iterator[str]:
    """Lines of the table of ``results/selection/index.md``."""
    for name, row in found.items():
        cells = [f"{mean:.1f} ({number})" for mean, number in zip(row["means"], row["repetitions"], strict=True)]
        value, low, high = row["difference"]
        yield f"| {name} | {' | '.join(cells)} | {value:+.1f} ({low:+.1f} to {high:+.1f}) | {row['detectable']:.1f} |"


def main() -> None:
    """Print the rows and write the numbers."""
    asked = arguments(__doc__ or "", [])
    found = measure()
    print("\n".join(page_rows(found)))
    write_json(asked.json, "python -m benchmarks.selection", found)


if __name__ == "__main__":
    main()
