"""Contestants that did not train: their recall does not clear that of a network without training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from similis.study.statistics.significance import LEVEL
from similis.study.statistics.variance_components import (
    LEAST_REPETITIONS,
    Floats,
    Scores,
    own_components,
    stable_variances,
    sum_freedom,
)
from similis.values import UserError, import_extra


@dataclass(frozen=True)
class NotTrained:
    """A contestant whose interval does not lie above the baseline.

    Attributes:
        name: the contestant's.
        difference: mean recall minus that of the baseline, in points.
        low: lower end of the one-sided 95 % interval of the difference, in points.
    """

    name: str
    difference: float
    low: float


def did_not_train(scores: Scores, floor: Floats) -> tuple[NotTrained, ...]:
    r"""Contestants whose one-sided 95 % interval of the difference to the baseline includes zero.

    The interval is for these test classes. Whether training did anything is a question about these runs, and the floor
    is measured on the same classes: an interval for unseen classes would call a contestant untrained because the test
    set is small. With :math:`\tilde S^2` of :func:`.stable_variances` and the floor's own variance :math:`S_f^2` over
    its :math:`R_f` repetitions,

    .. math::
        V = \max(\tilde S_c^2 / R + S_f^2 / R_f, V_{res}).

    Each contestant is asked for itself, without correction: a network without training passes one time in 20.

    Args:
        scores: at least three repetitions; one contestant is enough.
        floor: per-class recall (K,) of something without chance (raw pixels, a frozen network), or (K, R_f) with a
            column for each repetition of an untrained network.

    Example:
        >>> chance = np.random.default_rng(0)
        >>> y = 0.5 + 0.02 * chance.standard_normal((2, 20, 5)) + np.array([0.1, 0.0])[:, None, None]
        >>> [each.name for each in did_not_train(Scores(("a", "b"), y, np.ones(20)), np.full(20, 0.5))]
        ['b']
    """
    base = floor_scores(scores, floor)
    R, base_R = scores.values.shape[2], base.values.shape[2]
    own, _, residual = own_components(scores)
    stable, freedom, _ = stable_variances(own, R - 1)
    repetition, left = stable / R, residual
    if floor.ndim == 2:
        base_own, _, base_residual = own_components(base)
        freedom = sum_freedom(repetition, freedom, base_own / base_R, np.full_like(freedom, base_R - 1.0))
        repetition, left = repetition + base_own / base_R, left + base_residual
    error = np.sqrt(np.maximum(repetition, left))
    difference = scores.means - base.means
    low = difference - import_extra("scipy.stats").t.isf(LEVEL, freedom) * error
    return tuple(
        NotTrained(scores.names[c], 100 * float(difference[c]), 100 * float(low[c]))
        for c in range(len(scores.names))
        if low[c] <= 0
    )


def floor_scores(scores: Scores, floor: Floats) -> Scores:
    """The baseline as scores of one contestant on the same classes; raises an error if it does not fit."""
    _, K, R = scores.values.shape
    if floor.ndim not in (1, 2) or len(floor) != K or (floor.ndim == 2 and floor.shape[1] < LEAST_REPETITIONS):
        raise UserError(
            f"a baseline of shape {floor.shape} given for {K} classes; give per-class recall ({K},), or "
            f"({K}, repetitions) with at least {LEAST_REPETITIONS} repetitions"
        )
    if K < 2 or R < LEAST_REPETITIONS:
        raise UserError(
            f"{K} classes and {R} repetitions given; an interval needs two classes and at least {LEAST_REPETITIONS} "
            "repetitions: run more, five by default"
        )
    return Scores(("floor",), np.reshape(floor, (1, K, -1)), scores.sizes)
