"""Records of a study as cells, their intervals and verdicts, for the tables and figures of the studies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from similis.study.components import Scores
from similis.study.records import Records
from similis.study.sentences import PairVerdict
from similis.study.table import own_intervals, recall

Record = Mapping[str, Any]
Key = tuple[str, ...]


def cells(place: Path, key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """Final records by key, in the order of their names."""
    found: dict[Key, list[Record]] = {}
    for record in Records(place).all("final"):
        found.setdefault(key(record), []).append(record)
    return found


def scores_of(found: Mapping[Key, Sequence[Record]]) -> Scores:
    """Per-class recall of every cell and of the seeds that all cells have."""
    seeds = sorted(set.intersection(*({r["seed"] for r in rows} for rows in found.values())))
    values = np.stack([np.stack([recall(rows, seed) for seed in seeds], axis=1) for rows in found.values()])
    sizes = np.array(next(iter(found.values()))[0]["per_class"]["queries"], dtype=float)
    return Scores(tuple(" ".join(key) for key in found), values, sizes)


def intervals(found: Mapping[Key, Sequence[Record]]) -> dict[Key, tuple[float, float]]:
    """Mean and half of the 95 % interval on new classes of every cell, in per cent."""
    scores = scores_of(found)
    far = own_intervals(scores)[1]
    return {key: (100 * m, 100 * h) for key, m, h in zip(found, scores.means, far, strict=True)}


def verdict(judged: Sequence[PairVerdict], one: Key, other: Key) -> str:
    """The difference of two cells on both targets, corrected for all pairs of the study."""
    a, b = " ".join(one), " ".join(other)
    words = []
    for pair in judged:
        if {pair.first, pair.second} == {a, b}:
            points = pair.difference if pair.first == a else -pair.difference
            told = ", not told apart" if pair.verdict == "not told apart" else ""
            words.append(f"{points:+.1f} ± {(pair.high - pair.low) / 2:.1f} on {pair.target}{told}")
    return "; ".join(words)


def difference(judged: Sequence[PairVerdict], one: str, other: str) -> tuple[float, float]:
    """One minus other on new classes, in points, and half of its simultaneous interval."""
    pair = next(p for p in judged if p.target == "new classes" and {p.first, p.second} == {one, other})
    return pair.difference if pair.first == one else -pair.difference, (pair.high - pair.low) / 2


def shown(pair: tuple[float, float]) -> str:
    """Mean and half width."""
    return f"{pair[0]:.1f} ± {pair[1]:.1f}"


def over_seeds(values: Iterable[float]) -> tuple[float, float]:
    """Mean and half of the 95 % t-interval over seeds, in per cent: these classes, this training."""
    x = 100 * np.array(list(values))
    return float(x.mean()), float(stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))


def by_seed(rows: Sequence[Record]) -> np.ndarray:
    """Test R@1 of each seed."""
    return np.array([r["test"]["recall@1"] for r in sorted(rows, key=lambda r: r["seed"])])


def means_by(rows: Sequence[Record], part: str) -> list[float]:
    """Test R@1 of each seed, or of each fold."""
    numbers = sorted({r[part] for r in rows})
    return [float(np.mean([r["test"]["recall@1"] for r in rows if r[part] == n])) for n in numbers]
