"""Where the variance of a contestant comes from: tuning, seed and test classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from similis.study.statistics.variance_components import Floats, Scores, class_influence, residual_products
from similis.values import UserError, import_extra

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Deviation:
    """A standard deviation in points with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class VarianceSplit:
    """Standard deviations of one contestant.

    Attributes:
        name: the contestant's.
        run: of a single run, tuning and seed together.
        tuning: between repetitions, which have their own tuned settings; None if it cannot be told from the seed.
        seed: between runs with the same settings; None likewise.
        classes: of the mean recall, if other test classes were drawn.
    """

    name: str
    run: Deviation
    tuning: Deviation | None
    seed: Deviation | None
    classes: Deviation


def variance_split(names: Sequence[str], values: Floats, sizes: Floats) -> list[VarianceSplit]:
    r"""Nested analysis of variance of every contestant.

    With n runs in each of R repetitions, MSB between repetitions and MSW within them,

    .. math::
        \sigma^2_{seed} = MSW, \quad \sigma^2_{tuning} = \max(0, (MSB - MSW) / n).

    Intervals assume normal effects: chi-square for the seed, Williams and Tukey for the tuning, Satterthwaite for a
    run, chi-square of the jackknife for the classes.

    Args:
        names: the m contestants.
        values: (m, K, R, n) per-class recall; the runs of a repetition share its tuned settings.
        sizes: (K,) queries of each class.

    Example:
        >>> chance = np.random.default_rng(0)
        >>> y = 0.5 + 0.02 * chance.standard_normal((1, 1, 30, 1)) + 0.01 * chance.standard_normal((1, 1, 30, 4))
        >>> split = variance_split(["a"], np.repeat(y, 5, axis=1), np.ones(5))[0]
        >>> round(split.tuning.value, 1), round(split.seed.value, 1), round(split.classes.value, 1)
        (1.4, 1.0, 0.0)
    """
    if values.ndim != 4 or min(values.shape[1:3]) < 2 or values.shape[3] < 1:
        raise UserError(
            f"values of shape {values.shape} given; wanted is (contestants, classes, repetitions, runs) with two "
            "classes and two repetitions at least"
        )
    scores = Scores(tuple(names), values.mean(axis=3), sizes)
    by_run = np.einsum("k,ckrn->crn", scores.weights, values)
    return [
        VarianceSplit(name, *split_runs(by_run[c]), class_deviation(scores, c)) for c, name in enumerate(scores.names)
    ]


def split_runs(by_run: Floats) -> tuple[Deviation, Deviation | None, Deviation | None]:
    """Deviations of a run, of tuning and of the seed, from recall (R, n)."""
    R, n = by_run.shape
    between = n * float(by_run.mean(axis=1).var(ddof=1))
    if n == 1:
        return chi_square_deviation(between, R - 1), None, None
    within, inner = float(by_run.var(axis=1, ddof=1).mean()), R * (n - 1)
    parts = between / n, (n - 1) / n * within
    run, spread = sum(parts), parts[0] ** 2 / (R - 1) + parts[1] ** 2 / inner
    tuning = tuning_deviation(between, within, R, n)
    return chi_square_deviation(run, run**2 / spread if spread else inner), tuning, chi_square_deviation(within, inner)


def tuning_deviation(between: float, within: float, R: int, n: int) -> Deviation:
    """The component between repetitions, with the interval of Williams and Tukey."""
    stats, tail = import_extra("scipy.stats"), (1 - CONFIDENCE) / 2
    outer, inner = R - 1, R * (n - 1)
    bounds = [
        outer * (between - stats.f.ppf(q, outer, inner) * within) / (n * stats.chi2.ppf(q, outer))
        for q in (1 - tail, tail)
    ]
    return deviation((between - within) / n, bounds[0], bounds[1])


def class_deviation(scores: Scores, number: int) -> Deviation:
    """What other classes would change in the mean, without the part of the runs."""
    influence = class_influence(scores)
    shared, residual = influence.mean(axis=2), residual_products(influence).diagonal()
    K = scores.values.shape[1]
    classes, freedom = (K - 1) / K * float((shared[number] ** 2).sum()), scores.effective_classes - 1
    low, high = chi_square_bounds(classes, freedom)
    left = float(residual[number])
    return deviation(classes - left, low - left, high - left)


def chi_square_deviation(variance: float, freedom: float) -> Deviation:
    """A standard deviation whose variance has that many degrees of freedom."""
    return deviation(variance, *chi_square_bounds(variance, freedom))


def chi_square_bounds(variance: float, freedom: float) -> tuple[float, float]:
    """95 % interval of a variance."""
    chi2, tail = import_extra("scipy.stats").chi2, (1 - CONFIDENCE) / 2
    return freedom * variance / float(chi2.isf(tail, freedom)), freedom * variance / float(chi2.ppf(tail, freedom))


def deviation(variance: float, low: float, high: float) -> Deviation:
    """Standard deviations in points from variances of recall in [0, 1]; a negative estimate is none."""
    value, below, above = (100 * float(np.sqrt(max(0.0, each))) for each in (variance, low, high))
    return Deviation(value, below, above)


def pool_splits(splits: Sequence[VarianceSplit]) -> dict[str, float | None]:
    """Medians over contestants of the four standard deviations, which one unstable contestant does not move."""
    parts = {part: [getattr(split, part) for split in splits] for part in ("run", "tuning", "seed", "classes")}
    return {
        part: None if None in found else float(np.median([each.value for each in found]))
        for part, found in parts.items()
    }
