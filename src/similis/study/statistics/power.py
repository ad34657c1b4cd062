"""How many seeds or classes more would tell two losses apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from similis.study.statistics.significance import Target, quantiles
from similis.study.statistics.variance_components import VarianceComponents

MOST_SEEDS = 10_000


@dataclass(frozen=True)
class RequiredSample:
    """What would tell a difference with 80 % power: seeds of each loss, or else classes."""

    seeds: int | None
    classes: int | None

    def __str__(self) -> str:
        if self.seeds is not None:
            return f"{self.seeds} seeds would tell"
        if self.classes is not None:
            return f"no number of seeds suffices; about {self.classes} classes would"
        return "no number of seeds or classes tells a difference of nothing"


def required_sample(
    found: VarianceComponents, first: int, second: int, difference: float, target: Target
) -> RequiredSample:
    r"""Seeds (or classes) with which a true difference of that size is found 4 times in 5.

    The smallest :math:`s'` with

    .. math::
        (t_{1-.05/(m(m-1)),\nu} + t_{.8,\nu}) \sqrt{V_g + 2 \overline{S^2}/s'} \le |\Delta|,

    :math:`V_g = \max(0, V_{class} - V_{res})` on new classes and 0 on these. Where the classes alone
    forbid it, the number of classes.

    Args:
        found: of a tournament that was run.
        first: number of one loss.
        second: number of the other.
        difference: that is to be told, of scores in [0, 1].
        target: see :func:`similis.study.statistics.significance.judge`.
    """
    size = abs(difference)
    if size == 0:
        return RequiredSample(None, None)
    between = 0.0
    if target == "new classes":
        between = max(0.0, float(found.classes[first, second] - found.residual[first, second]))
    # Without limit of seeds: 4.2 standard errors for twelve losses, hence K * 4.43 V_g classes for two points.
    corrected, promised = quantiles(found.losses, np.array([np.inf]))
    reach = float((corrected + promised)[0])
    classes = math.ceil(found.class_number * reach**2 * between / size**2)
    if reach * math.sqrt(between) > size:
        return RequiredSample(None, classes)
    residual = float(found.residual[first, second]) * found.seeds
    low, high = 1, 2
    while not is_enough(found, high, between, residual, size):
        low, high = high, 2 * high
        if high > MOST_SEEDS:
            return RequiredSample(None, max(classes, found.class_number + 1))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(found, middle, between, residual, size) else (middle, high)
    return RequiredSample(high, None)


def is_enough(found: VarianceComponents, seeds: int, between: float, residual: float, size: float) -> bool:
    """Whether that many seeds give the promised power; ``residual`` is that of one seed."""
    by_seed = found.losses * (seeds - 1)
    seed = 2 * found.pooled / seeds
    variance = between + seed
    by_class = found.effective_classes - 1
    left = residual / seeds
    spread = seed**2 / by_seed
    if between:
        spread += (between + left) ** 2 / by_class + left**2 / (2 * (seeds - 1) * by_class)
    freedom = np.array([variance**2 / spread if spread else by_seed])
    corrected, promised = quantiles(found.losses, freedom)
    return float((corrected + promised)[0]) * math.sqrt(variance) <= size
