"""Does a loss beat whitening on frozen features? ``python -m benchmarks.frozen_features`` prints the rows of the page.

One table for each folder of ``results/frozen-features`` that has records: R@1 with the verdicts of the tournament
against whitening, and MAP@R with its difference to whitening, paired over repetitions, at Bonferroni's level.
``--json results/frozen-features/starts.json --only CELL`` measures where trained heads start, which no contestant is:
whitening of all training classes with Ledoit and Wolf's shrinkage, on the test classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.native_features import FOLDER as FEATURES
from benchmarks.rounds import arguments, measure_rows
from benchmarks.selection import mean_interval
from benchmarks.thesis_heads import finished_folders
from similis.data.open_data import open_data
from similis.retrieval.evaluate import evaluate
from similis.sphere import unit
from similis.study.report.judged_table import judge_folder
from similis.study.report.record import table_figures
from similis.study.tournament_folder import TournamentFolder
from similis.training.closed_form import fit_whitening, ledoit_wolf

FOLDER = Path(__file__).parent.parent / "results" / "frozen-features"
AGAINST, DIM = "whitening", 512
HEAD = "| contestant | R@1 % | over whitening | MAP@R % | over whitening | these classes | unseen classes |"
POINTS = "{:+.1f} ({:+.1f} to {:+.1f})"


def page_rows(folder: Path) -> Iterator[str]:
    """Contestants by their mean R@1: recall, MAP@R, differences to whitening, verdicts; then the baselines."""
    (judged,) = judge_folder(TournamentFolder(folder))
    figures = table_figures(judged)
    maps = {name: [100 * row["test"]["map@r"] for row in rows] for name, rows in judged.whole.records.items()}
    for name in judged.ranking:
        over, above, verdicts = "", "", ["", ""]
        if name != AGAINST:
            near, far = (verdict for verdict in judged.asked if verdict.first == name)
            over, verdicts = POINTS.format(near.difference, near.low, near.high), [near.verdict, far.verdict]
            gains = [own - other for own, other in zip(maps[name], maps[AGAINST], strict=True)]
            above = POINTS.format(*mean_interval(gains, intervals=len(maps) - 1))
        own = figures["contestants"][name]
        recall = f"{100 * own['mean']:.1f} ± {100 * own['these classes']:.1f}"
        yield f"| {name} | {recall} | {over} | {np.mean(maps[name]):.1f} | {above} | {' | '.join(verdicts)} |"
    for floor, own in figures["floors"].items():
        yield f"| floor: {floor} | {100 * own['mean']:.1f} |  |  |  |  |  |"


def measure_start(cell: str) -> dict[str, float]:
    """Shrinkage and scores of the map that trained heads of a cell start at."""
    data = open_data(FEATURES / f"{cell}.parquet")
    train, test = (
        [row for row, part in enumerate(data.parts) if (part == "train") == wanted] for wanted in (True, False)
    )
    known = data.vectors[train], data.labels[train]
    shrinkage = ledoit_wolf(*known)
    vectors = unit(fit_whitening(*known).map(DIM, shrinkage)(data.vectors[test]))
    means = evaluate(vectors, data.labels[test], ks=(1,)).means
    return {"shrinkage": shrinkage, **{metric: means[metric] for metric in ("recall@1", "map@r")}}


def main() -> None:
    """Print the rows of every table, or measure a start."""
    asked = arguments(__doc__ or "", [folder.name for folder in finished_folders(FOLDER)])
    if asked.only:
        measure_rows("frozen_features", asked, [asked.only], measure_start)
        return
    for folder in finished_folders(FOLDER):
        print(f"\n{folder.name}\n{HEAD}\n{'|---' * 7}|")
        print("\n".join(page_rows(folder)))


if __name__ == "__main__":
    main()
