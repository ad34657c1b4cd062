"""Class-level intervals: whole classes are resampled, because photos of one class are not independent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from similis.values import UserError

DRAWS = 2000
CELLS = 2**22  # class counts held at once: 32 MB in float64
GRID = 20_001  # points of the numerical integral of t_quantile


class Interval(NamedTuple):
    """An estimate and the interval around it."""

    value: float
    low: float
    high: float


class Bounds(NamedTuple):
    """Estimates and the intervals around them, (S,) each, float64: one for each statistic."""

    value: Tensor
    low: Tensor
    high: Tensor

    def interval(self, number: int = 0) -> Interval:
        """One of them as numbers."""
        return Interval(*(float(part[number]) for part in self))


def mean_interval(
    values: Tensor, labels: Tensor, *, share: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Interval:
    r"""The mean over queries and its interval for other classes drawn from the same population.

    With :math:`n_k` queries of class k and the sum :math:`S_k` of their values, a draw takes K classes with
    replacement and computes :math:`\sum_k c_k S_k / \sum_k c_k n_k`, where :math:`c_k` counts how often class k was
    drawn. The interval is that of :func:`class_bootstrap`.

    Use it for a score of every query (recall@1, MAP@R), and for two models on the same queries: pass the differences
    of their scores. The second says whether one model is better on classes that neither of them has seen.

    Args:
        values: (Q,) score of each query; queries with NaN (no match in the gallery) are left out.
        labels: (Q,) class of each query.
        share: of the intervals that cover the true mean.
        draws: of the bootstrap.
        seed: of the draws.

    Shapes: (Q,), (Q,) -> three numbers.

    Example:
        >>> labels = torch.arange(40) // 2
        >>> found = mean_interval(labels % 2 + torch.zeros(40), labels)
        >>> found.value, 0.2 < found.low < 0.4, 0.6 < found.high < 0.8
        (0.5, True, True)
    """
    if values.shape != labels.shape or values.ndim != 1:
        raise UserError(
            f"values {tuple(values.shape)} and labels {tuple(labels.shape)} given; give one value and one label a query"
        )
    kept = ~values.isnan()
    scores = values[kept].double().cpu()
    _, place, counts = torch.unique(labels[kept].cpu(), return_inverse=True, return_counts=True)
    sizes = counts.double()
    sums = torch.zeros_like(sizes).index_add_(0, place, scores)
    found = class_bootstrap(lambda times: (times @ sums) / (times @ sizes), sizes, share=share, draws=draws, seed=seed)
    return found.interval()


def class_bootstrap(
    statistic: Callable[[Tensor], Tensor],
    sizes: Tensor,
    *,
    share: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Bounds:
    r"""Intervals of statistics of a set of classes, by drawing classes with replacement.

    The interval is the expanded percentile interval of Hesterberg (What Teachers Should Know About the Bootstrap,
    The American Statistician 69, 2015): the quantiles of the draws at :math:`\Phi(\pm \sqrt{K_e/(K_e-1)}\, t_{K_e-1})`
    instead of :math:`\Phi(\pm z)`, with the effective number of classes :math:`K_e = (\sum_k w_k)^2 / \sum_k w_k^2`.
    This corrects the narrowness of the plain percentile interval where classes are few or a few of them weigh most.
    It stays within the range of the statistic. Two limits: a statistic that is the same in every class has an
    interval of width zero, and shares near 0 or 1 with ten classes are covered about nine times in ten.

    Args:
        statistic: class counts (R, K), float64 -> values (R,) or (R, S). Row r says how often each class was drawn;
            the estimate itself is the row of ones. Draws that give NaN are left out.
        sizes: (K,) weight :math:`w_k` of each class in the statistic: its queries, or its pairs; two or more above 0.
        share: of the intervals that cover the true value.
        draws: how many rows in all.
        seed: of the draws.

    Example:
        >>> heights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
        >>> found = class_bootstrap(lambda times: times @ heights / times.sum(1), torch.ones(5)).interval()
        >>> found.value, found.low < 2, found.high > 4
        (3.0, True, True)
    """
    classes, weights = len(sizes), sizes.double()
    present = int((weights > 0).sum())
    if present < 2 or draws < 2 or not 0.0 < share < 1.0:
        raise UserError(
            f"{present} classes, {draws} draws and share={share} given; an interval needs two classes or more, two "
            "draws or more and a share between 0 and 1"
        )
    chance = torch.Generator().manual_seed(seed)
    step = max(1, CELLS // classes)
    rows = [min(step, draws - start) for start in range(0, draws, step)]
    value = statistic(torch.ones(1, classes, dtype=torch.float64, device="cpu")).flatten()
    drawn = torch.cat([statistic(draw_classes(some, classes, chance)).reshape(some, -1) for some in rows])
    effective = max(2.0, float(weights.sum() ** 2 / weights.square().sum()))
    reach = math.sqrt(effective / (effective - 1)) * t_quantile(0.5 + share / 2, effective - 1)
    edges = torch.special.ndtr(torch.tensor([-reach, reach], dtype=torch.float64, device="cpu"))
    low, high = drawn.nanquantile(edges, dim=0)
    return Bounds(value, low, high)


def draw_classes(rows: int, classes: int, chance: torch.Generator) -> Tensor:
    """How often each class is drawn (R, K), float64, in ``rows`` draws of K classes with replacement."""
    taken = torch.randint(classes, (rows, classes), generator=chance, device="cpu")
    ones = torch.ones(rows, classes, dtype=torch.float64, device="cpu")
    return torch.zeros_like(ones).scatter_add_(1, taken, ones)


def t_quantile(p: float, freedom: float) -> float:
    r"""Quantile of Student's t distribution.

    With :math:`t = \sqrt{\nu} \tan\theta` the density of :math:`\theta` is proportional to
    :math:`\cos^{\nu-1}\theta`, bounded on a finite interval, and is integrated numerically.

    Args:
        p: between 0 and 1.
        freedom: degrees of freedom, 1 or more.

    Example:
        >>> round(t_quantile(0.975, 9), 4)
        2.2622
    """
    angle = torch.linspace(-math.pi / 2, math.pi / 2, GRID, dtype=torch.float64)
    below = torch.cumulative_trapezoid(angle.cos().clamp(min=0) ** (freedom - 1), angle)
    below = torch.cat([below.new_zeros(1), below]) / below[-1]
    right = int(torch.searchsorted(below, p).clamp(1, GRID - 1))
    part = (p - below[right - 1]) / (below[right] - below[right - 1])
    return math.sqrt(freedom) * math.tan(float(angle[right - 1] + part * (angle[right] - angle[right - 1])))
