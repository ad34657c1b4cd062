"""The rows of the page on heads, from committed records: ``python -m benchmarks.thesis_heads``.

One table for each folder of ``results/thesis/heads`` that has records: recall of every loss at every size, its sum of
ranks over the sizes by the rule of the thesis' Table 11, and the floors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from similis.study.report.judged_table import judge_folder
from similis.study.report.record import report_record
from similis.study.statistics.rank_sums import rank_sums
from similis.study.tournament_folder import TournamentFolder

FOLDER = Path(__file__).parent.parent / "results" / "thesis" / "heads"
SIZES = ("64", "128", "512", "1024")


def finished_folders(parent: Path = FOLDER) -> list[Path]:
    """Folders with records."""
    return sorted(path.parent for path in parent.glob("*/records.parquet"))


def table_figures(folder: Path) -> dict[str, Any]:
    """Size -> the figures of its table."""
    judged = judge_folder(TournamentFolder(folder))
    found = json.loads(report_record(judged))["figures"]["tables"].values()
    by_arena = {each.whole.arena: figures for each, figures in zip(judged, found, strict=True)}
    return {size: by_arena[size] for size in SIZES}


def page_rows(tables: dict[str, Any]) -> Iterator[str]:
    """Losses by their sum of ranks, then the floors."""
    recall = [{name: each["mean"] for name, each in table["contestants"].items()} for table in tables.values()]
    for line in rank_sums(recall):
        cells = [f"{100 * table['contestants'][line.name]['mean']:.1f}" for table in tables.values()]
        yield f"| {line.name} | {' | '.join(cells)} | {line.total:g} |"
    for floor in next(iter(tables.values()))["floors"]:
        cells = [f"{100 * table['floors'][floor]['mean']:.1f}" for table in tables.values()]
        yield f"| floor: {floor} | {' | '.join(cells)} |  |"


def main() -> None:
    """Print the rows of every table."""
    for folder in finished_folders():
        print(f"\n{folder.name}\n| loss | {' | '.join(SIZES)} | sum of ranks |\n{'|---' * (2 + len(SIZES))}|")
        print("\n".join(page_rows(table_figures(folder))))


if __name__ == "__main__":
    main()
