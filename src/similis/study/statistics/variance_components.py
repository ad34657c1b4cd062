"""Variance components of the differences between losses: repetitions, classes and residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from similis.values import UserError, import_extra

Floats = NDArray[np.float64]
LEAST_REPETITIONS = 3  # two hold for no rule: see docs/decisions/0006-judgement.md


@dataclass(frozen=True, eq=False)
class Scores:
    """Per-class recall of every loss and repetition.

    Attributes:
        names: the m losses.
        values: (m, K, R) mean score of the queries of class k, for loss c and repetition j, in [0, 1].
        sizes: (K,) queries of each class; its share of all queries is its weight.
    """

    names: tuple[str, ...]
    values: Floats
    sizes: Floats

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.values.shape[:2] != (len(self.names), len(self.sizes)):
            raise UserError(
                f"scores of shape {self.values.shape} given for {len(self.names)} losses, {len(self.sizes)} classes; "
                "wanted is (losses, classes, repetitions), the same number of repetitions for every loss"
            )
        if not np.isfinite(self.values).all() or (self.sizes <= 0).any():
            raise UserError("scores must be numbers and every class needs a query; leave classes without queries out")

    @property
    def can_be_judged(self) -> bool:
        """Whether there are losses, classes and repetitions enough for verdicts."""
        m, K, R = self.values.shape
        return bool(m > 1 and K > 1 and R >= LEAST_REPETITIONS)

    def select(self, names: Sequence[str], repetitions: int) -> Scores:
        """These losses, in this order, after the first so many repetitions."""
        rows = [self.names.index(name) for name in names]
        return Scores(tuple(names), self.values[rows, :, :repetitions], self.sizes)

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
        stable: (m,) variance over repetitions of each loss, see :func:`stable_variances`.
        typical: the least variance that any loss is given.
        losses: m.
        repetitions: R.
        class_number: K.
        effective_classes: see :class:`Scores`.
    """

    difference: Floats
    repetition: Floats
    freedom: Floats
    classes: Floats
    residual: Floats
    stable: Floats
    typical: float
    losses: int
    repetitions: int
    class_number: int
    effective_classes: float


def variance_components(scores: Scores) -> VarianceComponents:
    r"""Variance components of all pairs.

    With class weights :math:`w_k`, scores :math:`y_{ckj}`, their means :math:`\bar y_{cj}` over classes:

    .. math::
        V_{rep} = (\tilde S_c^2 + \tilde S_d^2)/R \\
        V_{class} = \tfrac{K-1}{K} \sum_k \Big[\frac{w_k (d_k - D)}{1 - w_k}\Big]^2 \\
        V_{res} = \sum_{c,d} \tfrac{K-1}{K} \sum_{kj} \frac{r_{ckj}^2}{R(R-1)}

    where r is :math:`w_k (y_{ckj} - \bar y_{cj})/(1 - w_k)` less its mean over repetitions, and :math:`\tilde S^2`
    comes from :func:`stable_variances`.

    Args:
        scores: at least two losses, two classes and three repetitions.

    Example:
        >>> y = np.array([[[0.5, 0.6, 0.7]] * 2, [[0.5, 0.5, 0.5]] * 2])
        >>> found = variance_components(Scores(("a", "b"), y, np.ones(2)))
        >>> round(float(found.difference[0, 1]), 3), round(float(found.repetition[0, 1]), 4)
        (0.1, 0.0033)
    """
    m, K, R = scores.values.shape
    if not scores.can_be_judged:
        raise UserError(
            f"{m} losses, {K} classes and {R} repetitions given; a verdict needs two losses, two classes and at least "
            f"{LEAST_REPETITIONS} repetitions (with two, no rule keeps its error rate): run more, five by default"
        )
    own, shared, residual = own_components(scores)
    stable, freedom, typical = stable_variances(own, R - 1)
    by_pair = pair_freedom(stable[:, None], freedom[:, None], stable[None, :], freedom[None, :], losses=m)
    apart = shared[:, None, :] - shared[None, :, :]
    return VarianceComponents(
        difference=scores.means[:, None] - scores.means[None, :],
        repetition=(stable[:, None] + stable[None, :]) / R,
        freedom=by_pair,
        classes=(K - 1) / K * (apart**2).sum(axis=2),
        residual=residual[:, None] + residual[None, :],
        stable=stable,
        typical=typical,
        losses=m,
        repetitions=R,
        class_number=K,
        effective_classes=scores.effective_classes,
    )


def stable_variances(own: Floats, freedom: int) -> tuple[Floats, Floats, float]:
    r"""Variances that neither a lucky nor an unstable loss can distort, their degrees of freedom, the typical variance.

    .. math::
        \tilde S_c^2 = \max(S_c^2, S_0^2), \quad
        S_0^2 = \operatorname{median}(S^2) / (\operatorname{median}(\chi^2_\nu) / \nu)

    A loss above the typical variance :math:`S_0^2` keeps its own variance and :math:`\nu = R - 1` degrees of freedom;
    all others share :math:`S_0^2` with :math:`m\nu/2`. A median, unlike a mean, does not belong to its largest member.
    Two losses have no typical variance: each keeps its own.

    Args:
        own: (m,) variances over repetitions.
        freedom: R - 1.

    Example:
        >>> stable, freedom, typical = stable_variances(np.array([1.0, 0.5, 100.0, 1.0, 2.0]), 4)
        >>> stable.round(2).tolist(), freedom.tolist()
        ([1.19, 1.19, 100.0, 1.19, 2.0], [10.0, 10.0, 4.0, 10.0, 4.0])
    """
    m, typical = len(own), 0.0
    if m > 2:
        chi2 = import_extra("scipy.stats").chi2
        typical = float(np.median(own) / (chi2.median(freedom) / freedom))
    return *raise_variances(own, typical, freedom, losses=m), typical


def raise_variances(own: Floats, typical: float, freedom: int, *, losses: int) -> tuple[Floats, Floats]:
    """Variances of single losses, at least the typical one, and their degrees of freedom; see stable_variances."""
    if losses < 3:
        return own, np.full_like(own, float(freedom))
    return np.maximum(own, typical), np.where(own > typical, float(freedom), losses * freedom / 2)


def pair_freedom(first: Floats, freedom: Floats, second: Floats, other: Floats, *, losses: int) -> Floats:
    """Degrees of freedom of the difference of two losses; Welch's are too many for two losses and three repetitions."""
    return np.minimum(freedom, other) if losses < 3 else sum_freedom(first, freedom, second, other)


def sum_freedom(first: Floats, freedom: Floats, second: Floats, other: Floats) -> Floats:
    """Degrees of freedom of the sum of two variances with ``freedom`` and ``other``, by Satterthwaite's formula.

    Example:
        >>> sum_freedom(np.ones(1), np.full(1, 4.0), np.ones(1), np.full(1, 4.0)).tolist()
        [8.0]
    """
    spread = first**2 / freedom + second**2 / other
    fewest = np.minimum(freedom, other) + 0.0 * spread
    return np.divide((first + second) ** 2, spread, out=fewest, where=spread > 0)


def own_components(scores: Scores) -> tuple[Floats, Floats, Floats]:
    """Of each loss: its variance over repetitions (m,), the influence of every class (m, K), the residual (m,)."""
    _, K, R = scores.values.shape
    w, per_repetition = scores.weights, scores.per_repetition
    influence = (w / (1 - w))[None, :, None] * (scores.values - per_repetition[:, None, :])
    shared = influence.mean(axis=2)
    left = influence - shared[:, :, None]
    return per_repetition.var(axis=1, ddof=1), shared, (K - 1) / K * (left**2).sum(axis=(1, 2)) / (R * (R - 1))
