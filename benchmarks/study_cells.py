"""Records of a study as cells, their intervals and differences, for the tables and figures of the studies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from similis.study.statistics.fair_table import class_recall, own_intervals
from similis.study.statistics.variance_components import Scores
from similis.study.statistics.verdicts import PairVerdict, pair_verdicts
from similis.study.tournament_folder import TournamentFolder

Record = Mapping[str, Any]
Key = tuple[str, ...]
Cells = Mapping[Key, tuple[float, float]]  # mean and half width, per cent
RESULTS = Path(__file__).parents[1] / "results"


class Table(NamedTuple):
    """A table of a page: its columns, and its rows as the page shows them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def lines(self) -> list[str]:
        """The table in Markdown."""
        return [f"| {' | '.join(row)} |" for row in (self.columns, ["---"] * len(self.columns), *self.rows)]


def cells(place: Path, *parts: str) -> dict[Key, list[Record]]:
    """Final records by these of their values, in the order of their names."""
    found: dict[Key, list[Record]] = {}
    for record in TournamentFolder(place).records.all("final"):
        found.setdefault(tuple(record[part] for part in parts), []).append(record)
    return found


def scores_of(found: Mapping[Key, Sequence[Record]]) -> Scores:
    """Per-class recall of every cell and of the seeds that all cells have."""
    seeds = sorted(set.intersection(*({r["seed"] for r in rows} for rows in found.values())))
    values = np.stack([np.stack([class_recall(rows, seed) for seed in seeds], axis=1) for rows in found.values()])
    sizes = np.array(next(iter(found.values()))[0]["per_class"]["queries"], dtype=float)
    return Scores(tuple(" ".join(key) for key in found), values, sizes)


def intervals(found: Mapping[Key, Sequence[Record]]) -> dict[Key, tuple[float, float]]:
    """Mean and half of the 95 % interval for unseen classes of every cell, in per cent."""
    scores = scores_of(found)
    far = own_intervals(scores)[1]
    return {key: (100 * m, 100 * h) for key, m, h in zip(found, scores.means, far, strict=True)}


def judge_cells(found: Mapping[Key, Sequence[Record]]) -> list[PairVerdict]:
    """Verdicts about all pairs of cells; none with fewer than three seeds."""
    scores = scores_of(found)
    return pair_verdicts(scores) if scores.can_be_judged else []


def difference(judged: Sequence[PairVerdict], one: Key, other: Key, value: Cells) -> tuple[float, float]:
    """One minus other in points for unseen classes, with half of its interval, simultaneous over all pairs.

    Without verdicts the difference of the means of ``value``, and no interval.
    """
    if not judged:
        return value[one][0] - value[other][0], 0.0
    pair = pair_of(judged, one, other)
    return pair.difference if pair.first == " ".join(one) else -pair.difference, (pair.high - pair.low) / 2


def compared(judged: Sequence[PairVerdict], one: Key, other: Key, value: Cells) -> list[str]:
    """Three cells: the difference, whether it is significant, the smallest difference found with 80 % power."""
    points, half = difference(judged, one, other, value)
    if not judged:
        return [f"{points:+.1f}", "too few seeds", ""]
    pair = pair_of(judged, one, other)
    word = "yes" if pair.verdict in ("better", "worse") else "no"
    return [f"{points:+.1f} ± {half:.1f}", word, f"{pair.detectable:.1f}"]


def pair_of(judged: Sequence[PairVerdict], one: Key, other: Key) -> PairVerdict:
    """What is said about two cells and unseen classes."""
    names = {" ".join(one), " ".join(other)}
    return next(p for p in judged if p.target == "unseen classes" and {p.first, p.second} == names)


def floors(name: str) -> list[float]:
    """R@1 in per cent without training, for each seed, from the record of ``python -m benchmarks.floors``."""
    figures = json.loads((RESULTS / "floors.json").read_text(encoding="utf-8"))["figures"]
    return [100 * value for value in figures[name]["recall@1"]]


def floor(name: str) -> str:
    """The mean of a floor."""
    return f"{np.mean(floors(name)):.1f}"


def shown(pair: tuple[float, float]) -> str:
    """Mean and half width."""
    return f"{pair[0]:.1f} ± {pair[1]:.1f}"


def each(rows: Sequence[Record], part: str = "seed", split: str = "test") -> np.ndarray:
    """R@1 of each seed, or of each fold."""
    return np.array([r[split]["recall@1"] for r in sorted(rows, key=lambda r: r[part])])


def tau(one: Sequence[float] | np.ndarray, other: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Kendall's tau of two orders, and its p value."""
    found = stats.kendalltau(one, other)
    return float(found.statistic), float(found.pvalue)
