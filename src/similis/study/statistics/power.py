"""How many repetitions or classes would settle an undecided pair."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from similis.study.statistics.significance import LEVEL, MARGIN, POWER, Target, combine_components
from similis.study.statistics.variance_components import (
    LEAST_REPETITIONS,
    Floats,
    VarianceComponents,
    sum_freedom,
)
from similis.values import import_extra

MOST_REPETITIONS = 1_000
MOST_CLASSES = 100_000
GRID = (np.arange(9) + 0.5) / 9  # quantiles of a future variance

Outcome = Literal["significant", "equivalent"]


@dataclass(frozen=True)
class RequiredSample:
    """The smallest experiment that settles a pair with 80 % power, if the observed difference is the true one.

    Attributes:
        outcome: whether it would show a difference, or that the difference is inside the margin.
        repetitions: of each loss; None if no experiment of a sensible size settles the pair.
        classes: test classes; None if those at hand are enough.
        margin: in points.
    """

    outcome: Outcome
    repetitions: int | None
    classes: int | None
    margin: float

    def describe(self, have: int) -> str:
        """One clause, after an experiment with ``have`` repetitions."""
        if self.repetitions is None:
            return f"not even {MOST_REPETITIONS:,} repetitions would settle it"
        shows = "detect a true difference of the observed size"
        if self.outcome == "equivalent":
            shows = f"show that the difference is within ±{self.margin:.2f} points"
        if self.classes is not None:
            more = f" and {self.repetitions} repetitions" if self.repetitions > have else ""
            return (
                f"more repetitions alone would not settle it; about {self.classes:,} test classes{more} would {shows} "
                "with 80 % power"
            )
        if self.repetitions <= have:
            return f"an experiment of this size would {shows} with 80 % power, and this one did not"
        return f"{self.repetitions} repetitions would {shows} with 80 % power"


@dataclass(frozen=True)
class PairDesign:
    """What an experiment with one pair depends on.

    ``variances`` are those of one repetition: of the difference where repetitions are paired, otherwise of both losses.
    """

    variances: tuple[float, ...]
    between: float
    residual: float
    class_number: int
    effective_classes: float
    target: Target
    pairs: int


def required_sample(
    found: VarianceComponents,
    first: int,
    second: int,
    target: Target,
    *,
    difference: float | None = None,
    pairs: int | None = None,
    margin: float = MARGIN,
) -> RequiredSample:
    """Repetitions, and classes if need be, that settle a pair four times in five.

    A difference inside the margin is settled by a significant difference or by equivalence, whichever needs less.

    Args:
        found: the components of a finished tournament.
        first: number of one loss.
        second: number of the other.
        target: see :func:`similis.study.statistics.significance.judge`.
        difference: the true one, of scores in [0, 1]; None for the observed one.
        pairs: how many the correction covers; None for all pairs.
        margin: in points.
    """
    size = abs(float(found.difference[first, second]) if difference is None else difference)
    design = pair_design(found, first, second, target, pairs or len(found.own) * (len(found.own) - 1) // 2)
    outcomes: list[Outcome] = ["significant"] if size > 0 else []
    outcomes += ["equivalent"] if 100 * size < margin else []
    sizes = [smallest_sample(design, outcome, size, margin, found.repetitions) for outcome in outcomes]
    return min(sizes, key=lambda s: (s.repetitions is None, s.classes or 0, s.repetitions or 0))


def planned_repetitions(points: float, deviation: float, *, pairs: int) -> int | None:
    """Repetitions that find a difference between two losses four times in five, before anything is run.

    For these test classes and independent repetitions of one variance; pairing needs fewer.

    Args:
        points: the true difference of R@1.
        deviation: standard deviation of a loss's R@1 over repetitions, in points, tuning included.
        pairs: that the correction covers.

    Returns:
        None if not even a thousand suffice.

    Example:
        >>> planned_repetitions(2.0, 1.0, pairs=45), planned_repetitions(1.0, 1.0, pairs=1)
        (12, 17)
    """
    variance = (deviation / 100) ** 2
    design = PairDesign((variance, variance), 0.0, 0.0, 1, float("inf"), "these test classes", pairs)
    return smallest_sample(design, "significant", points / 100, MARGIN, 0).repetitions


def pair_design(found: VarianceComponents, first: int, second: int, target: Target, pairs: int) -> PairDesign:
    """The design of a pair from the components of a finished tournament."""
    between = max(0.0, float(found.classes[first, second] - found.residual[first, second]))
    apart = float(found.repetition[first, second]) * found.repetitions
    return PairDesign(
        variances=(apart,) if found.paired else (float(found.own[first]), float(found.own[second])),
        between=between if target == "unseen classes" else 0.0,
        residual=float(found.residual[first, second]) * found.repetitions,
        class_number=found.class_number,
        effective_classes=found.effective_classes,
        target=target,
        pairs=pairs,
    )


def smallest_sample(design: PairDesign, outcome: Outcome, size: float, margin: float, have: int) -> RequiredSample:
    """The fewest repetitions; where they do not suffice, the fewest classes."""

    def is_enough(repetitions: int, classes: int) -> bool:
        return expected_power(design, outcome, size, margin / 100, repetitions=repetitions, classes=classes) >= POWER

    K = design.class_number
    repetitions = first_enough(lambda R: is_enough(R, K), LEAST_REPETITIONS, MOST_REPETITIONS)
    if repetitions is not None or not design.between:
        return RequiredSample(outcome, repetitions, None, margin)
    # With ever more classes only repetitions matter; twice as many leave half of the variance to the classes.
    alone = first_enough(lambda R: is_enough(R, MOST_CLASSES), LEAST_REPETITIONS, MOST_REPETITIONS // 2)
    if alone is None:
        return RequiredSample(outcome, None, None, margin)
    repetitions = max(have, 2 * alone)
    return RequiredSample(
        outcome, repetitions, first_enough(lambda k: is_enough(repetitions, k), K, MOST_CLASSES), margin
    )


def first_enough(is_enough: Callable[[int], bool], low: int, most: int) -> int | None:
    """The smallest number from ``low`` to ``most`` that is enough; None if there is none.

    Example:
        >>> first_enough(lambda number: number >= 37, 3, 1000)
        37
    """
    found = low + bisect_left(range(low, most + 1), True, key=is_enough)
    return found if found <= most else None


def expected_power(
    design: PairDesign, outcome: Outcome, size: float, margin: float, *, repetitions: int, classes: int
) -> float:
    """Probability of the outcome, the mean over quantiles of the two variances that such an experiment may estimate."""
    stats = import_extra("scipy.stats")
    share = design.class_number / classes
    between, residual = design.between * share, design.residual * share / repetitions
    repetition, freedom = future_variances(design, repetitions)
    estimated, freedom = combine_components(
        repetition,
        freedom,
        np.full_like(repetition, between + residual),
        np.full_like(repetition, residual),
        effective_classes=design.effective_classes / share,
        target=design.target,
    )
    true = max(np.sqrt(between + sum(design.variances) / repetitions), np.finfo(float).tiny)
    tails = 2 if outcome == "significant" else 1
    reach = stats.t.isf(LEVEL / (tails * design.pairs), freedom) * np.sqrt(estimated)
    if outcome == "significant":
        return float(stats.norm.cdf((size - reach) / true).mean())
    room = np.maximum(margin - reach, 0.0)
    return float((stats.norm.cdf((room - size) / true) - stats.norm.cdf((-room - size) / true)).mean())


def future_variances(design: PairDesign, repetitions: int) -> tuple[Floats, Floats]:
    """Repetition variances of a pair and their degrees of freedom, over a grid of quantiles."""
    freedom = repetitions - 1
    quantile = import_extra("scipy.stats").chi2.ppf(GRID, freedom) / freedom
    drawn = [each * quantile for each in design.variances]
    if len(drawn) == 1:
        return drawn[0] / repetitions, np.full_like(quantile, freedom)
    first, second = np.meshgrid(*drawn)
    return (first + second) / repetitions, sum_freedom(first, second, freedom)
