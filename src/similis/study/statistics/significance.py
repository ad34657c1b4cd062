"""Significance of the differences between losses, for both targets, corrected for the pairs that are asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from similis.study.statistics.variance_components import Floats, Scores, VarianceComponents, variance_components
from similis.values import import_extra

Target = Literal["these test classes", "unseen classes"]
TARGETS: tuple[Target, ...] = ("these test classes", "unseen classes")
Verdict = Literal["better", "worse", "equivalent", "undecided"]
LEVEL = 0.05
POWER = 0.8
MARGIN = 1.0  # points


@dataclass(frozen=True, eq=False)
class Judgement:
    """The pairs of one target, first against second.

    Attributes:
        target: what is generalised to: other repetitions, or other repetitions and other classes.
        first, second: (pairs,) numbers of the two losses.
        difference: (pairs,) first minus second.
        variance: (pairs,) of the difference.
        freedom: (pairs,) degrees of freedom of that variance.
        p: (pairs,) of one pair alone, two-sided.
        holm: (pairs,) corrected for all pairs in the judgement.
        equivalence: (pairs,) of two one-sided tests against the margin, corrected likewise.
        half_width: (pairs,) of intervals with simultaneous confidence ``1 - level``.
        detectable: (pairs,) the difference that would be found with 80 % power.
        level, equivalence_level: what ``holm`` and ``equivalence`` are compared with.
    """

    target: Target
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    difference: Floats
    variance: Floats
    freedom: Floats
    p: Floats
    holm: Floats
    equivalence: Floats
    half_width: Floats
    detectable: Floats
    level: float
    equivalence_level: float

    @property
    def significant(self) -> NDArray[np.bool_]:
        """(pairs,) whether the corrected p is at most the level."""
        return self.holm <= self.level

    @property
    def within_margin(self) -> NDArray[np.bool_]:
        """(pairs,) whether the difference is shown to lie inside the margin."""
        return self.equivalence <= self.equivalence_level

    @property
    def verdicts(self) -> list[Verdict]:
        """(pairs,) of first against second; a significant difference inside the margin is better or worse."""
        words: list[Verdict] = []
        for differs, inside, points in zip(self.significant, self.within_margin, self.difference, strict=True):
            if differs:
                words.append("better" if points > 0 else "worse")
            else:
                words.append("equivalent" if inside else "undecided")
        return words


def judge(scores: Scores, target: Target, *, against: str | None = None, margin: float = MARGIN) -> Judgement:
    """Judge every pair c < d, or every loss against one baseline.

    ``these test classes``: the classes are fixed and other repetitions are drawn. ``unseen classes``: other classes are
    drawn, too. The test over repetitions is Welch's, or the paired t test where the scores are paired. The classes
    share one gallery, so they are not strictly independent. Neither target includes the variance of the training set;
    tuning is included if each repetition searches anew.

    Args:
        scores: at least three repetitions.
        target: what is generalised to.
        against: the baseline; None for all pairs. Holm's correction covers the pairs that are asked about.
        margin: differences below it, in points, do not matter.

    Example:
        >>> chance = np.random.default_rng(0)
        >>> y = 0.5 + 0.01 * chance.standard_normal((3, 20, 5)) + np.array([0.1, 0.0, 0.0])[:, None, None]
        >>> scores = Scores(("a", "b", "c"), y, np.ones(20))
        >>> judge(scores, "unseen classes").verdicts
        ['better', 'better', 'equivalent']
        >>> judge(scores, "unseen classes", against="a").verdicts
        ['worse', 'worse']
    """
    found = variance_components(scores)
    return judge_components(found, target, *choose_pairs(scores.names, against), margin=margin)


def choose_pairs(names: tuple[str, ...], against: str | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the first and of the second loss of each pair."""
    if against is None:
        first, second = np.triu_indices(len(names), 1)
        return first, second
    base = names.index(against)
    others = np.array([c for c in range(len(names)) if c != base], dtype=np.int64)
    return others, np.full_like(others, base)


def judge_components(
    found: VarianceComponents,
    target: Target,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    *,
    margin: float = MARGIN,
    level: float = LEVEL,
    equivalence_level: float = LEVEL,
) -> Judgement:
    """Judge pairs from variance components."""
    variance, freedom = (each[first, second] for each in difference_variance(found, target))
    difference, error = found.difference[first, second], np.sqrt(variance)
    t = import_extra("scipy.stats").t
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(difference == 0, 1.0, 2 * t.sf(np.abs(difference) / error, freedom))
        inside = margin / 100 - np.abs(difference)
        equivalence = np.where(inside == 0, 0.5, t.sf(inside / error, freedom))
    corrected, promised = quantiles(len(p), freedom, level)
    return Judgement(
        target=target,
        first=first,
        second=second,
        difference=difference,
        variance=variance,
        freedom=freedom,
        p=p,
        holm=holm(p),
        equivalence=holm(equivalence),
        half_width=corrected * error,
        detectable=(corrected + promised) * error,
        level=level,
        equivalence_level=equivalence_level,
    )


def difference_variance(found: VarianceComponents, target: Target) -> tuple[Floats, Floats]:
    """Variance of each difference and its degrees of freedom (m, m)."""
    parts = found.repetition, found.freedom, found.classes, found.residual
    return combine_components(*parts, effective_classes=found.effective_classes, target=target)


def combine_components(
    repetition: Floats, freedom: Floats, classes: Floats, residual: Floats, *, effective_classes: float, target: Target
) -> tuple[Floats, Floats]:
    r"""Variance of a difference and its degrees of freedom, from arrays of components of one shape.

    For these test classes :math:`\max(V_{rep}, V_{res})`. For unseen classes the largest of
    :math:`V_{class} + V_{rep} - V_{res}` and its parts, with :math:`\nu = V / (V_{rep}/\nu_{rep} +
    V_{class}/(K_e - 1))`. This weighted harmonic mean is smaller than Satterthwaite's formula, which raises 7 % false
    alarms for two losses, one of them unstable, with three repetitions.
    """
    if target == "these test classes":
        return np.maximum(repetition, residual), freedom
    variance = np.maximum.reduce([classes + repetition - residual, classes, repetition, residual])
    spread = repetition / freedom + classes / (effective_classes - 1)
    return variance, np.divide(variance, spread, out=freedom + 0.0 * spread, where=spread > 0)


def quantiles(pairs: int, freedom: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """T for a two-sided test of that many pairs, and t of the promised power."""
    t = import_extra("scipy.stats").t
    return np.asarray(t.isf(level / (2 * pairs), freedom)), np.asarray(t.ppf(POWER, freedom))


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
