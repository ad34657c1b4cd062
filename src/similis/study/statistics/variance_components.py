"""Variance components of the differences between losses: repetitions, classes and residual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from similis.values import UserError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Per-class recall of every loss and repetition.

    Attributes:
        names: the m losses.
        values: (m, K, s) mean score of the queries of class k, for loss c and repetition j, in [0, 1].
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
    def weights(self) -> Floats:
        """(K,) share of each class among the queries."""
        return np.asarray(self.sizes / self.sizes.sum())

    @property
    def effective_classes(self) -> float:
        """1 / sum of squared weights; K if all classes are of one size."""
        return float(1 / (self.weights**2).sum())

    @property
    def per_repetition(self) -> Floats:
        """(m, s) mean over all queries."""
        return np.asarray(np.einsum("k,cks->cs", self.weights, self.values))

    @property
    def means(self) -> Floats:
        """(m,) mean over queries and repetitions."""
        return np.asarray(self.per_repetition.mean(axis=1))


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """Variances of the differences of all pairs of losses.

    Attributes:
        difference: (m, m) mean of the row's loss minus mean of the column's.
        repetition: (m, m) what other repetitions would change, an unstable loss counted by its own variance.
        classes: (m, m) what other classes would change, with the part of the repetitions in it (jackknife).
        residual: (m, m) the part of the repetitions in ``classes``.
        pooled: mean over losses of the variance over repetitions.
        losses: m.
        repetitions: s.
        class_number: K.
        effective_classes: see :class:`Scores`.
    """

    difference: Floats
    repetition: Floats
    classes: Floats
    residual: Floats
    pooled: float
    losses: int
    repetitions: int
    class_number: int
    effective_classes: float


def variance_components(scores: Scores) -> VarianceComponents:
    r"""Variance components of all pairs.

    With class weights :math:`w_k`, scores :math:`y_{ckj}`, their means :math:`\bar y_{cj}` over classes:

    .. math::
        V_{rep} = (\tilde S_c^2 + \tilde S_d^2)/s, \quad \tilde S_c^2 = \max(S_c^2, \overline{S^2}) \\
        V_{class} = \tfrac{K-1}{K} \sum_k \Big[\frac{w_k (d_k - D)}{1 - w_k}\Big]^2 \\
        V_{res} = \sum_{c,d} \tfrac{K-1}{K} \sum_{kj} \frac{r_{ckj}^2}{s(s-1)}

    where r is :math:`w_k (y_{ckj} - \bar y_{cj})/(1 - w_k)` less its mean over repetitions.

    Args:
        scores: at least two losses, two classes and two repetitions.

    Example:
        >>> y = np.array([[[0.5, 0.7], [0.5, 0.7]], [[0.5, 0.5], [0.5, 0.5]]])
        >>> found = variance_components(Scores(("a", "b"), y, np.ones(2)))
        >>> round(float(found.difference[0, 1]), 3), round(found.pooled, 3), round(float(found.classes[0, 1]), 3)
        (0.1, 0.01, 0.0)
    """
    m, K, s = scores.values.shape
    if m < 2 or K < 2 or s < 2:
        raise UserError(
            f"{m} losses, {K} classes and {s} repetitions given; a verdict needs two of each (one says "
            "nothing about others): run more repetitions"
        )
    own, shared, residual = own_components(scores)
    pooled = float(own.mean())
    stable = np.maximum(own, pooled)
    apart = shared[:, None, :] - shared[None, :, :]
    return VarianceComponents(
        difference=scores.means[:, None] - scores.means[None, :],
        repetition=(stable[:, None] + stable[None, :]) / s,
        classes=(K - 1) / K * (apart**2).sum(axis=2),
        residual=residual[:, None] + residual[None, :],
        pooled=pooled,
        losses=m,
        repetitions=s,
        class_number=K,
        effective_classes=scores.effective_classes,
    )


def own_components(scores: Scores) -> tuple[Floats, Floats, Floats]:
    """Of each loss: its variance over repetitions (m,), the influence of every class (m, K), the residual (m,)."""
    _, K, s = scores.values.shape
    w, per_repetition = scores.weights, scores.per_repetition
    influence = (w / (1 - w))[None, :, None] * (scores.values - per_repetition[:, None, :])
    shared = influence.mean(axis=2)
    left = influence - shared[:, :, None]
    return per_repetition.var(axis=1, ddof=1), shared, (K - 1) / K * (left**2).sum(axis=(1, 2)) / (s * (s - 1))
