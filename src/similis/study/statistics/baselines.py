"""Contestants that are not above a baseline, such as the pretrained network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from similis.study.statistics.significance import LEVEL
from similis.study.statistics.variance_components import Floats, Scores, sum_freedom
from similis.values import import_extra


@dataclass(frozen=True)
class BelowBaseline:
    """A contestant whose interval does not lie above the baseline.

    Attributes:
        name: the contestant's.
        low: lower end of the one-sided 95 % interval of the difference, in points.
    """

    name: str
    low: float


def below_baseline(scores: Scores, baseline: Floats) -> tuple[BelowBaseline, ...]:
    """Contestants whose one-sided 95 % interval of the difference to the baseline includes zero.

    The interval is for these test classes, by Welch's t test over repetitions, or by the t test of one sample against
    a baseline without repetitions. Each contestant is asked for itself, without correction: it is a mark in the table,
    not a verdict.

    Args:
        scores: at least three repetitions; one contestant is enough.
        baseline: per-class recall (K,) of something without chance (raw pixels, a frozen network), or (K, R) with a
            column for each repetition of an untrained network.

    Example:
        >>> chance = np.random.default_rng(0)
        >>> y = 0.5 + 0.02 * chance.standard_normal((2, 20, 5)) + np.array([0.1, 0.0])[:, None, None]
        >>> [each.name for each in below_baseline(Scores(("a", "b"), y, np.ones(20)), np.full(20, 0.5))]
        ['b']
    """
    base = scores.weights @ baseline.reshape(len(baseline), -1)
    repetitions = scores.values.shape[2]
    variance = scores.per_repetition.var(axis=1, ddof=1) / repetitions
    freedom = np.full_like(variance, repetitions - 1.0)
    if len(base) > 1:
        other = np.full_like(variance, base.var(ddof=1) / len(base))
        freedom, variance = sum_freedom(variance, other, repetitions - 1, len(base) - 1), variance + other
    difference = scores.means - base.mean()
    low = difference - import_extra("scipy.stats").t.isf(LEVEL, freedom) * np.sqrt(variance)
    return tuple(BelowBaseline(scores.names[c], 100 * float(low[c])) for c in range(len(scores.names)) if low[c] <= 0)
