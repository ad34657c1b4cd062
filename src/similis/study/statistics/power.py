"""How many repetitions or classes an experiment needs to detect a difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from similis.study.statistics.significance import Target, quantiles
from similis.study.statistics.variance_components import VarianceComponents

MOST_REPETITIONS = 10_000  # that are searched
FEW_REPETITIONS = 1_000  # that a report names


@dataclass(frozen=True)
class RequiredSample:
    """What would detect a difference with 80 % power: repetitions of each loss, or else classes."""

    repetitions: int | None
    classes: int | None

    def describe(self, have: int) -> str:
        """One clause about the observed difference, after an experiment with ``have`` repetitions."""
        if self.repetitions is None:
            if self.classes is None:
                return "the observed one is zero"
            return f"no number of repetitions would detect the observed one, about {self.classes} classes would"
        if self.repetitions > FEW_REPETITIONS:
            return f"not even {FEW_REPETITIONS:,} repetitions would detect the observed one"
        if self.repetitions <= have:
            return (
                f"{self.repetitions} repetitions detect the observed one four times in five, and this time they did not"
            )
        return f"{self.repetitions} repetitions would detect the observed one"


def required_sample(
    found: VarianceComponents, first: int, second: int, difference: float, target: Target
) -> RequiredSample:
    r"""Repetitions (or classes) with which a true difference of that size is detected four times in five.

    The smallest :math:`s'` with

    .. math::
        (t_{1-.05/(m(m-1)),\nu} + t_{.8,\nu}) \sqrt{V_g + 2 \overline{S^2}/s'} \le |\Delta|,

    :math:`V_g = \max(0, V_{class} - V_{res})` for unseen classes and 0 for these. Where no number
    of repetitions suffices, the number of classes.

    Args:
        found: the components of a finished tournament.
        first: number of one loss.
        second: number of the other.
        difference: to detect, of scores in [0, 1].
        target: see :func:`similis.study.statistics.significance.judge`.
    """
    size = abs(difference)
    if size == 0:
        return RequiredSample(None, None)
    between = 0.0
    if target == "unseen classes":
        between = max(0.0, float(found.classes[first, second] - found.residual[first, second]))
    # Without limit of repetitions: 4.2 standard errors for twelve losses, hence K * 4.43 V_g classes for two points.
    corrected, promised = quantiles(found.losses, np.array([np.inf]))
    reach = float((corrected + promised)[0])
    classes = math.ceil(found.class_number * reach**2 * between / size**2)
    if reach * math.sqrt(between) > size:
        return RequiredSample(None, classes)
    residual = float(found.residual[first, second]) * found.repetitions
    low, high = 1, 2
    while not is_enough(found, high, between, residual, size):
        low, high = high, 2 * high
        if high > MOST_REPETITIONS:
            return RequiredSample(None, max(classes, found.class_number + 1)) if between else RequiredSample(high, None)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(found, middle, between, residual, size) else (middle, high)
    return RequiredSample(high, None)


def is_enough(found: VarianceComponents, repetitions: int, between: float, residual: float, size: float) -> bool:
    """Whether that many repetitions give the promised power; ``residual`` is that of one repetition."""
    by_repetition = found.losses * (repetitions - 1)
    repetition = 2 * found.pooled / repetitions
    variance = between + repetition
    by_class = found.effective_classes - 1
    left = residual / repetitions
    spread = repetition**2 / by_repetition
    if between:
        spread += (between + left) ** 2 / by_class + left**2 / (2 * (repetitions - 1) * by_class)
    freedom = np.array([variance**2 / spread if spread else by_repetition])
    corrected, promised = quantiles(found.losses, freedom)
    return float((corrected + promised)[0]) * math.sqrt(variance) <= size
