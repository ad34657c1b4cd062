"""Does a loss beat whitening on frozen features? ``python -m benchmarks.frozen_features`` prints the rows of the page.

One table for each folder of ``results/frozen-features`` that has records: R@1 with the verdicts of the tournament
against whitening, and MAP@R with its difference to whitening, paired over repetitions, at Bonferroni's level.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.stats

from similis.study.report.judged_table import judge_folder
from similis.study.statistics.fair_table import own_intervals
from similis.study.tournament_folder import TournamentFolder

FOLDER = Path(__file__).parent.parent / "results" / "frozen-features"
AGAINST = "whitening"
HEAD = "| contestant | R@1 % | over whitening | MAP@R % | over whitening | these classes | unseen classes |"


def finished_cells() -> list[str]:
    """Folders with records."""
    return sorted(path.parent.name for path in FOLDER.glob("*/records.parquet"))


def paired_difference(values: list[float], others: list[float], pairs: int) -> tuple[float, float, float]:
    """Mean difference and its 95 % interval, simultaneous over so many pairs (Student, Bonferroni)."""
    apart = np.subtract(values, others)
    reach = float(scipy.stats.t.ppf(1 - 0.025 / pairs, len(apart) - 1) * scipy.stats.sem(apart))
    return float(apart.mean()), float(apart.mean()) - reach, float(apart.mean()) + reach


def page_rows(cell: str) -> Iterator[str]:
    """Contestants by their mean R@1: recall, MAP@R, differences to whitening, verdicts; then the baselines."""
    (judged,) = judge_folder(TournamentFolder(FOLDER / cell))
    scores, reach = judged.whole.scores, own_intervals(judged.whole.scores)[0]
    maps = {name: [100 * row["test"]["map@r"] for row in rows] for name, rows in judged.whole.records.items()}
    for name in judged.ranking:
        number, over, above, verdicts = scores.names.index(name), "", "", ["", ""]
        if name != AGAINST:
            near, far = (verdict for verdict in judged.asked if verdict.first == name)
            over, verdicts = describe_points((near.difference, near.low, near.high)), [near.verdict, far.verdict]
            above = describe_points(paired_difference(maps[name], maps[AGAINST], len(scores.names) - 1))
        recall = f"{100 * scores.means[number]:.1f} ± {100 * reach[number]:.1f}"
        yield f"| {name} | {recall} | {over} | {np.mean(maps[name]):.1f} | {above} | {' | '.join(verdicts)} |"
    for floor, found in judged.floors.items():
        yield f"| floor: {floor} | {100 * (found.mean(axis=1) * scores.weights).sum():.1f} |  |  |  |  |  |"


def describe_points(points: tuple[float, ...]) -> str:
    """A difference with its interval."""
    value, low, high = (f"{each:+.1f}" for each in points)
    return f"{value} ({low} to {high})"


def main() -> None:
    """Print the rows of every table."""
    for cell in finished_cells():
        print(f"\n{cell}\n{HEAD}\n{'|---' * 7}|")
        print("\n".join(page_rows(cell)))


if __name__ == "__main__":
    main()
