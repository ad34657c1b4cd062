"""The thesis' own tournament beside the verdicts: sums of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from similis.values import import_extra


@dataclass(frozen=True)
class RankSum:
    """A line of the thesis' tournament: ranks of one loss over the experiments."""

    name: str
    ranks: tuple[float, ...]

    @property
    def total(self) -> float:
        """Sum of the ranks: the smallest wins."""
        return sum(self.ranks)

    @property
    def mean(self) -> float:
        """Mean rank."""
        return float(np.mean(self.ranks))

    @property
    def deviation(self) -> float:
        """Sample standard deviation (n - 1) of the ranks, as in the thesis."""
        return float(np.std(self.ranks, ddof=1)) if len(self.ranks) > 1 else 0.0


def rank_sums(experiments: Sequence[Mapping[str, float]]) -> list[RankSum]:
    """The thesis' tournament: rank the losses in each experiment, add the ranks; smallest sum first.

    Args:
        experiments: loss -> score, the same losses in each; higher is better, ties share their mean rank.

    Example:
        >>> [(line.name, line.total) for line in rank_sums([{"a": 3, "b": 2}, {"a": 1, "b": 2}, {"a": 5, "b": 4}])]
        [('a', 4.0), ('b', 5.0)]
    """
    names = sorted(experiments[0]) if experiments else []
    table = np.array([[each[name] for name in names] for each in experiments])
    ranks = import_extra("scipy.stats").rankdata(-table, axis=1)
    lines = [RankSum(name, tuple(float(r) for r in ranks[:, c])) for c, name in enumerate(names)]
    return sorted(lines, key=lambda line: (line.total, line.name))
