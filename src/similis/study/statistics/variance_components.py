"""Variance components of the differences between losses: repetitions, classes and residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAST_REPETITIONS = 3  # two hold for no rule: see docs/decisions/0006-judgement.md


@dataclass(frozen=True, eq=False)
class Scores:
    """Per-class recall of every loss and repetition.

    Attributes:
        names: the m losses.
        values: (m, K, R) mean score of the queries of class k, for loss c and repetition j, in [0, 1].
        sizes: (K,) queries of each class; its share of all queries is its weight.
        paired: whether the losses share validation classes, seeds and batches within a repetition.
    """

    names: tuple[str, ...]
    values: Floats
    sizes: Floats
    paired: bool = False

    @property
    def can_be_judged(self) -> bool:
        """Whether there are losses, classes and repetitions enough for verdicts."""
        m, K, R = self.values.shape
        return bool(m > 1 and K > 1 and R >= LEAST_REPETITIONS)

    def select(self, names: Sequence[str], repetitions: int) -> Scores:
        """These losses, in this order, after the first so many repetitions."""
        rows = [self.names.index(name) for name in names]
        return Scores(tuple(names), self.values[rows, :, :repetitions], self.sizes, self.paired)

    @property
    def weights(self) -> Floats:
        """(K,) share of each class among the queries."""
        return np.asarray(self.sizes / self.sizes.sum())

    @property
    def effective_classes(self) -> float:
        """1 / sum of squared weights; K if all classes are of one size."""
        return float(1 / (self.weights**2).sum())

    @property
    def per_repetition(self) -> Floats:
        """(m, R) mean over all queries."""
        return np.asarray(np.einsum("k,ckr->cr", self.weights, self.values))

    @property
    def means(self) -> Floats:
        """(m,) mean over queries and repetitions."""
        return np.asarray(self.per_repetition.mean(axis=1))


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """Variances of the differences of all pairs of losses.

    Attributes:
        difference: (m, m) mean of the row's loss minus mean of the column's.
        repetition: (m, m) what other repetitions would change.
        freedom: (m, m) degrees of freedom of ``repetition``.
        classes: (m, m) what other classes would change, with the part of the repetitions in it (jackknife).
        residual: (m, m) the part of the repetitions in ``classes``.
        own: (m,) variance over repetitions of each loss.
        paired: see :class:`Scores`.
        repetitions: R.
        class_number: K.
        effective_classes: see :class:`Scores`.
    """

    difference: Floats
    repetition: Floats
    freedom: Floats
    classes: Floats
    residual: Floats
    own: Floats
    paired: bool
    repetitions: int
    class_number: int
    effective_classes: float


def variance_components(scores: Scores) -> VarianceComponents:
    r"""Variance components of all pairs.

    With class weights :math:`w_k`, scores :math:`y_{ckj}`, their means :math:`\bar y_{cj}` over classes and
    :math:`D_j = \bar y_{cj} - \bar y_{dj}`:

    .. math::
        V_{rep} = (S_c^2 + S_d^2)/R \text{ (Welch), or } S_{D}^2/R \text{ where repetitions are paired} \\
        V_{class} = \tfrac{K-1}{K} \sum_k \Big[\frac{w_k (d_k - D)}{1 - w_k}\Big]^2 \\
        V_{res} = \tfrac{K-1}{K} \sum_{kj} \frac{r_{kj}^2}{R(R-1)}

    where r is :math:`w_k (y_{ckj} - \bar y_{cj})/(1 - w_k)` less its mean over repetitions, of the difference where
    repetitions are paired, and otherwise of each loss, the two sums added. Degrees of freedom are R - 1 for pairs and
    Satterthwaite's for independent repetitions.

    Args:
        scores: at least two losses, two classes and three repetitions.

    Example:
        >>> y = np.array([[[0.5, 0.6, 0.7]] * 2, [[0.5, 0.5, 0.5]] * 2])
        >>> found = variance_components(Scores(("a", "b"), y, np.ones(2)))
        >>> round(float(found.difference[0, 1]), 3), round(float(found.repetition[0, 1]), 4)
        (0.1, 0.0033)
    """
    m, K, R = scores.values.shape
    own, influence = scores.per_repetition.var(axis=1, ddof=1), class_influence(scores)
    shared = influence.mean(axis=2)
    apart = shared[:, None, :] - shared[None, :, :]
    left = residual_products(influence)
    alone = left.diagonal()
    both, freedom = own[:, None] + own[None, :], sum_freedom(own[:, None], own[None, :], R - 1)
    residual = alone[:, None] + alone[None, :]
    if scores.paired:
        y = scores.per_repetition
        both, freedom = (y[:, None, :] - y[None, :, :]).var(axis=2, ddof=1), np.full((m, m), R - 1.0)
        residual = residual - 2 * left
    return VarianceComponents(
        difference=scores.means[:, None] - scores.means[None, :],
        repetition=both / R,
        freedom=freedom,
        classes=(K - 1) / K * (apart**2).sum(axis=2),
        residual=residual,
        own=own,
        paired=scores.paired,
        repetitions=R,
        class_number=K,
        effective_classes=scores.effective_classes,
    )


def sum_freedom(first: Floats, second: Floats, freedom: float, other: float | None = None) -> Floats:
    """Degrees of freedom of the sum of two variances with ``freedom`` and ``other``, by Satterthwaite's formula.

    Example:
        >>> sum_freedom(np.ones(1), np.ones(1), 4).tolist(), sum_freedom(np.ones(1), np.zeros(1), 4).tolist()
        ([8.0], [4.0])
    """
    other = freedom if other is None else other
    spread = first**2 / freedom + second**2 / other
    return np.divide((first + second) ** 2, spread, out=min(freedom, other) + 0.0 * spread, where=spread > 0)


def class_influence(scores: Scores) -> Floats:
    """What the mean of each repetition loses without a class, up to its sign (m, K, R)."""
    w = scores.weights
    return np.asarray((w / (1 - w))[None, :, None] * (scores.values - scores.per_repetition[:, None, :]))


def residual_products(influence: Floats) -> Floats:
    """The part of the repetitions in the jackknife over classes: variances and covariances of all losses (m, m)."""
    _, K, R = influence.shape
    left = influence - influence.mean(axis=2, keepdims=True)
    return np.asarray((K - 1) / K * np.einsum("ckr,dkr->cd", left, left) / (R * (R - 1)))
