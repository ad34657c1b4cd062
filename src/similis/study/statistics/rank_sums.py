"""Summaries beside the verdicts: sums of ranks, interquartile means, the probability of improvement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from similis.study.statistics.variance_components import Floats
from similis.values import import_extra


def interquartile_mean(values: Floats) -> float:
    """Mean of the middle half of the repetitions: neither the best nor the worst repetition moves it.

    Reference: Agarwal et al.: Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021.

    Example:
        >>> interquartile_mean(np.array([0.0, 1.0, 2.0, 9.0]))
        1.5
    """
    return float(import_extra("scipy.stats").trim_mean(values, 0.25))


def probability_of_improvement(first: Floats, second: Floats) -> float:
    """Share of pairs of repetitions in which the first is better; a tie is half a win.

    Example:
        >>> probability_of_improvement(np.array([1.0, 3.0]), np.array([1.0, 2.0]))
        0.625
    """
    apart = first[:, None] - second[None, :]
    return float(((apart > 0) + 0.5 * (apart == 0)).mean())


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
