"""Records of a study as cells, their intervals and verdicts, for the tables and figures of the studies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from similis.study.records import Records
from similis.study.statistics.fair_table import class_recall, own_intervals
from similis.study.statistics.significance import TARGETS, Target
from similis.study.statistics.variance_components import Scores
from similis.study.statistics.verdicts import PairVerdict

Record = Mapping[str, Any]
Key = tuple[str, ...]


def cells(place: Path, *parts: str) -> dict[Key, list[Record]]:
    """Final records by these of their values, in the order of their names."""
    found: dict[Key, list[Record]] = {}
    for record in Records(place).all("final"):
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


def verdict(judged: Sequence[PairVerdict], one: Key, other: Key) -> str:
    """The difference of two cells on both targets, corrected for all pairs of the study."""
    words = []
    for target in TARGETS:
        (points, half), significant = difference(judged, one, other, target)
        words.append(f"{points:+.1f} ± {half:.1f} on {target}" + ("" if significant else ", not significant"))
    return "; ".join(words)


def difference(
    judged: Sequence[PairVerdict], one: Key, other: Key, target: Target = "unseen classes"
) -> tuple[tuple[float, float], bool]:
    """One minus other in points with half of its simultaneous interval, and whether it is significant."""
    a, b = " ".join(one), " ".join(other)
    pair = next(p for p in judged if p.target == target and {p.first, p.second} == {a, b})
    points = pair.difference if pair.first == a else -pair.difference
    return (points, (pair.high - pair.low) / 2), pair.verdict == "better"


def shown(pair: tuple[float, float]) -> str:
    """Mean and half width."""
    return f"{pair[0]:.1f} ± {pair[1]:.1f}"


def over_seeds(values: Iterable[float]) -> tuple[float, float]:
    """Mean and half of the 95 % t-interval over seeds, in per cent: these classes, this training."""
    x = 100 * np.array(list(values))
    return float(x.mean()), float(stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))


def each(rows: Sequence[Record], part: str = "seed", split: str = "test") -> np.ndarray:
    """R@1 of each seed, or of each fold."""
    return np.array([r[split]["recall@1"] for r in sorted(rows, key=lambda r: r[part])])


def tau(one: Sequence[float] | np.ndarray, other: Sequence[float] | np.ndarray) -> float:
    """Kendall's tau of two orders."""
    return float(stats.kendalltau(one, other).statistic)
