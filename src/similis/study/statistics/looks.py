"""Interim analyses: verdicts about two contestants after every few repetitions, with error control over all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from similis.study.statistics.power import required_sample
from similis.study.statistics.significance import LEVEL, MARGIN, TARGETS, Judgement, Target, judge_components
from similis.study.statistics.variance_components import Floats, Scores, variance_components
from similis.study.statistics.verdicts import PairVerdict, pair_verdict
from similis.values import import_extra

LOOKS = (3, 5, 7, 10, 15)
NODES = 64  # of Gauss-Legendre quadrature between two boundaries


@cache
def nominal_levels(
    looks: tuple[int, ...], *, most: int = LOOKS[-1], last: bool = False, level: float = LEVEL
) -> tuple[float, ...]:
    r"""Two-sided level of each interim analysis, so that all together reject a true null at most at ``level``.

    O'Brien and Fleming's spending in the form of Lan and DeMets: after a share :math:`\tau` of the planned repetitions,
    :math:`\alpha(\tau) = 4 - 4\Phi(z_{1-\alpha/4} / \sqrt\tau)` is spent, half of it on each side. The looks
    need not be the planned ones.

    Args:
        looks: repetitions at each interim analysis so far, rising.
        most: repetitions that were planned before the first one.
        last: whether none can follow, for a reason other than the data (the time is up). The last one then uses
            the rest of the error rate. Do not analyse again afterwards.
        level: of all of them together, two-sided.

    Example:
        >>> [round(each, 4) for each in nominal_levels((3, 5, 7, 10, 15))]
        [0.0, 0.0002, 0.002, 0.0114, 0.0461]
        >>> [round(each, 4) for each in nominal_levels((3, 4), last=True)]
        [0.0, 0.05]
    """
    shares = np.array(looks, dtype=np.float64) / most
    if last:
        shares[-1] = 1.0
    norm = import_extra("scipy.stats").norm
    spent = 4 * norm.sf(norm.isf(level / 4) / np.sqrt(shares))
    points = density = np.zeros(0)
    levels: list[float] = []
    for look, share in enumerate(shares):
        step = np.sqrt(share - (shares[look - 1] if look else 0.0))
        increment = spent[look] - (spent[look - 1] if look else 0.0)
        bound = boundary(points, density, step, increment)
        levels.append(float(2 * norm.sf(bound / np.sqrt(share))))
        points, density = continue_density(points, density, step, bound)
    return tuple(levels)


def boundary(points: Floats, density: Floats, step: float, increment: float) -> float:
    """The bound that a Brownian motion leaves now, and not before, with that probability.

    Args:
        points: quadrature points between the bounds of the interim analysis before; empty at the first.
        density: of the motion that is still inside, times the weights of the quadrature.
        step: standard deviation of the motion since then.
        increment: the probability.
    """
    norm = import_extra("scipy.stats").norm
    if not len(points):
        return float(step * norm.isf(increment / 2))

    def excess(bound: float) -> float:
        return float(density @ (norm.sf((bound - points) / step) + norm.cdf((-bound - points) / step))) - increment

    return float(import_extra("scipy.optimize").brentq(excess, 0.0, np.abs(points).max() + 40 * step, xtol=1e-12))


def continue_density(points: Floats, density: Floats, step: float, bound: float) -> tuple[Floats, Floats]:
    """Quadrature points inside the bound, and the density of the motion that has never left, times the weights."""
    norm = import_extra("scipy.stats").norm
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    inside = bound * nodes
    if not len(points):
        return inside, bound * weights * norm.pdf(inside, scale=step)
    return inside, bound * weights * (norm.pdf(inside[:, None] - points[None, :], scale=step) @ density)


def look_verdicts(
    scores: Scores, looks: tuple[int, ...], *, most: int = LOOKS[-1], last: bool = False, margin: float = MARGIN
) -> list[PairVerdict]:
    """Verdicts for both targets about the first of two contestants against the second, at the newest interim analysis.

    Each target keeps its own 5 % over all interim analyses, whatever the target on which the caller stops:
    two-sided for better and worse, one-sided for equivalence.

    Args:
        scores: two contestants, all repetitions so far.
        looks: repetitions at each interim analysis so far, the newest last.
        most: see :func:`nominal_levels`.
        last: see :func:`nominal_levels`.
        margin: differences below it, in points, do not matter.

    Example:
        >>> chance = np.random.default_rng(0)
        >>> y = 0.5 + 0.01 * chance.standard_normal((2, 20, 5)) + np.array([0.1, 0.0])[:, None, None]
        >>> [v.verdict for v in look_verdicts(Scores(("mine", "baseline"), y, np.ones(20)), (3, 5))]
        ['better', 'better']
    """
    found = variance_components(scores)
    out = []
    for target in TARGETS:
        judgement = judge_look(scores, looks, target, most=most, last=last, margin=margin)
        verdict = pair_verdict(scores, found, judgement, 0, margin)
        sample = required_sample(found, 0, 1, target, margin=margin)
        enough = sample.classes is None and sample.repetitions is not None and sample.repetitions <= most
        if verdict.verdict == "undecided" and not last and enough:
            verdict = replace(verdict, required=f"interim analyses up to {most} repetitions are expected to settle it")
        out.append(verdict)
    return out


def judge_look(
    scores: Scores,
    looks: tuple[int, ...],
    target: Target,
    *,
    most: int = LOOKS[-1],
    last: bool = False,
    margin: float = MARGIN,
) -> Judgement:
    """Judge two contestants at the newest interim analysis; arguments as for :func:`look_verdicts`.

    The levels belong to normal statistics and are applied to the p values of t tests. The classes are the same at every
    look; this makes the looks more alike and the error smaller.
    """
    return judge_components(
        variance_components(scores),
        target,
        np.array([0]),
        np.array([1]),
        margin=margin,
        level=nominal_levels(looks, most=most, last=last)[-1],
        # One-sided: the other bound of the margin is too far away to be crossed.
        equivalence_level=nominal_levels(looks, most=most, last=last, level=2 * LEVEL)[-1] / 2,
    )
