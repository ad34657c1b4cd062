"""Error and power of the verdicts: ``python -m benchmarks.verdict_rules [--only ROW] [--json FILE]``.

Simulated tournaments of ten contestants on 100 test classes, see ``tests/statistics/simulated.py``; one row is one case
of standard deviations over repetitions, independent or paired. Family-wise error: the share of tournaments of equal
contestants with any verdict "better" or "worse". Power: the share in which a contestant that is two median standard
deviations better is found better than one other. ``compare`` has two contestants, in pairs, and interim analyses at 3,
5, 7, 10 and 15 repetitions. The committed record is ``results/verdict-rules.json``.
"""

from __future__ import annotations

from typing import Any

from benchmarks.rounds import arguments, measure_rows
from similis.study.statistics.looks import LOOKS
from similis.study.statistics.significance import TARGETS
from tests.statistics.looking import share_of_verdicts
from tests.statistics.rates import false_alarms, power
from tests.statistics.simulated import CASES, VARIANCES

TOURNAMENTS, POWER_TOURNAMENTS = 2000, 300
REPETITIONS = (5, 12, 30)
ROWS = [*CASES, *(f"compare, {name}" for name in VARIANCES)]


def measure(row: str) -> dict[str, Any]:
    """Target -> error and power of each number of repetitions."""
    if row.startswith("compare"):
        world = VARIANCES[row.removeprefix("compare, ")]
        words = {"error": (("better", "worse"), 0.0, TOURNAMENTS), "power": (("better",), 4.0, POWER_TOURNAMENTS)}
        return {
            target: {
                key: {str(LOOKS[-1]): share_of_verdicts(world, LOOKS, number, target=target, words=said, gain=gain)}
                for key, (said, gain, number) in words.items()
            }
            for target in TARGETS
        }
    return {
        target: {
            "error": {str(R): false_alarms(CASES[row], R, TOURNAMENTS, target=target) for R in REPETITIONS},
            "power": {str(R): power(CASES[row], R, POWER_TOURNAMENTS, target=target) for R in REPETITIONS},
        }
        for target in TARGETS
    }


def page_rows(figures: dict[str, Any]) -> list[str]:
    """The rows of the table in docs/decisions/0006-judgement.md, in per cent."""
    rows = []
    for row, found in figures.items():
        cells = []
        for values in found.values():
            cells.append(" / ".join(f"{100 * value:.1f}" for value in values["error"].values()))
            cells.append(" / ".join(f"{100 * value:.0f}" for value in values["power"].values()))
        rows.append(f"| {row} | {' | '.join(cells)} |")
    return rows


def main() -> None:
    """Measure the rows and print those of the page."""
    print("\n".join(page_rows(measure_rows("verdict_rules", arguments(__doc__ or "", ROWS), ROWS, measure))))


if __name__ == "__main__":
    main()
