"""Significance of the difference of every pair of losses, for both targets, corrected for many pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from similis.study.statistics.variance_components import Floats, Scores, VarianceComponents, variance_components
from similis.values import import_extra

Target = Literal["these test classes", "unseen classes"]
TARGETS: tuple[Target, ...] = ("these test classes", "unseen classes")
LEVEL = 0.05
POWER = 0.8


@dataclass(frozen=True, eq=False)
class Judgement:
    """All pairs c < d of one target, in the order of :func:`numpy.triu_indices`.

    Attributes:
        target: what is generalised to: other repetitions, or other repetitions and other classes.
        first, second: (pairs,) numbers of the two losses.
        difference: (pairs,) first minus second.
        variance: (pairs,) of the difference.
        freedom: (pairs,) degrees of freedom of that variance.
        p: (pairs,) of one pair alone, two-sided.
        holm: (pairs,) corrected for all pairs.
        half_width: (pairs,) of simultaneous 95 % intervals.
        detectable: (pairs,) the difference that would be found with 80 % power.
    """

    target: Target
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    difference: Floats
    variance: Floats
    freedom: Floats
    p: Floats
    holm: Floats
    half_width: Floats
    detectable: Floats

    @property
    def significant(self) -> NDArray[np.bool_]:
        """(pairs,) whether the corrected p is at most 5 %."""
        return self.holm <= LEVEL


def judge(scores: Scores, target: Target) -> Judgement:
    """Verdicts for one target.

    ``these test classes``: the classes are fixed and other repetitions are drawn. ``unseen classes``: other classes are
    drawn, too. Repetitions of two losses are not paired. The classes share one gallery, so they are not strictly
    independent; neither target includes the variance of tuning and of the training set.

    Example:
        >>> chance = np.random.default_rng(0)
        >>> y = 0.5 + 0.01 * chance.standard_normal((3, 20, 5)) + np.array([0.1, 0.0, 0.0])[:, None, None]
        >>> judge(Scores(("a", "b", "c"), y, np.ones(20)), "unseen classes").significant.tolist()
        [True, True, False]
    """
    return judge_components(variance_components(scores), target)


def judge_components(found: VarianceComponents, target: Target) -> Judgement:
    """Verdicts from variance components."""
    first, second = np.triu_indices(found.losses, 1)
    variance, freedom = difference_variance(found, target)
    variance, freedom = variance[first, second], freedom[first, second]
    difference = found.difference[first, second]
    error = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(difference == 0, 1.0, 2 * import_extra("scipy.stats").t.sf(np.abs(difference) / error, freedom))
    corrected, promised = quantiles(found.losses, freedom)
    return Judgement(
        target=target,
        first=first,
        second=second,
        difference=difference,
        variance=variance,
        freedom=freedom,
        p=p,
        holm=holm(p),
        half_width=corrected * error,
        detectable=(corrected + promised) * error,
    )


def difference_variance(found: VarianceComponents, target: Target) -> tuple[Floats, Floats]:
    """Variance of each difference and its degrees of freedom (m, m)."""
    by_repetition = found.losses * (found.repetitions - 1)
    if target == "these test classes":
        variance = np.maximum(found.repetition, found.residual)
        return variance, np.full_like(variance, by_repetition)
    variance = np.maximum.reduce(
        [found.classes + found.repetition - found.residual, found.classes, found.repetition, found.residual]
    )
    by_class = found.effective_classes - 1
    spread = (
        found.classes**2 / by_class
        + found.repetition**2 / by_repetition
        + found.residual**2 / (2 * (found.repetitions - 1) * by_class)
    )
    freedom = np.divide(variance**2, spread, out=np.full_like(variance, by_repetition), where=spread > 0)
    return variance, freedom


def quantiles(losses: int, freedom: Floats) -> tuple[Floats, Floats]:
    """T for a two-sided test at 5 % over all pairs of the losses, and t of the promised power."""
    t = import_extra("scipy.stats").t
    return np.asarray(t.ppf(1 - LEVEL / (losses * (losses - 1)), freedom)), np.asarray(t.ppf(POWER, freedom))


def holm(p: Floats) -> Floats:
    """Holm's step-down correction, which controls the error of the whole family of tests.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty_like(p)
    out[order] = np.minimum(stepped, 1.0)
    return out
