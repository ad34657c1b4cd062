"""How well two partitions of one set agree: NMI, AMI and pair F1 of classes and clusters.

Side by side, with class sizes a, cluster sizes b, common counts n and N items::

    NMI      I(class; cluster) / ((H(class) + H(cluster)) / 2)        grows with the number of clusters by chance
    AMI      (I - E[I]) / ((H(class) + H(cluster)) / 2 - E[I])        0 for chance, E[I] over random partitions
    pair F1  2 TP / (pairs in one cluster + pairs in one class)       TP pairs are in one cluster and in one class

Logarithms are natural; none of the three depends on the names of classes and clusters.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from similis.values import UserError


class Contingency(NamedTuple):
    """Items common to a class and a cluster (P,), sizes of that class and cluster (P,); sizes of all of them."""

    common: Tensor
    of_class: Tensor
    of_cluster: Tensor
    classes: Tensor
    clusters: Tensor

    @property
    def total(self) -> int:
        """Number of items."""
        return int(self.classes.sum())


def contingency(labels: Tensor, clusters: Tensor) -> Contingency:
    """The non-empty cells of the table of classes and clusters, in O(N log N)."""
    if labels.shape != clusters.shape or labels.ndim != 1 or len(labels) == 0:
        raise UserError(
            f"labels {tuple(labels.shape)} and clusters {tuple(clusters.shape)} given; "
            "two vectors of one length, not empty, are needed"
        )
    _, row, classes = torch.unique(labels, return_inverse=True, return_counts=True)
    _, column, sizes = torch.unique(clusters.to(labels.device), return_inverse=True, return_counts=True)
    cells, common = torch.unique(row * len(sizes) + column, return_counts=True)
    return Contingency(common, classes[cells // len(sizes)], sizes[cells % len(sizes)], classes, sizes)


def nmi(labels: Tensor, clusters: Tensor) -> float:
    """Normalised mutual information, arithmetic mean of the entropies below. Strehl and Ghosh, JMLR 2002.

    Two partitions into a single set agree fully: 1.

    Example:
        >>> nmi(torch.tensor([0, 0, 1, 1]), torch.tensor([5, 5, 3, 3]))
        1.0
    """
    table = contingency(labels, clusters)
    if len(table.classes) == len(table.clusters) == 1:
        return 1.0
    return _information(table) / _mean_entropy(table)


def ami(labels: Tensor, clusters: Tensor) -> float:
    """Mutual information adjusted for chance. Vinh, Epps, Bailey, JMLR 2010.

    Where the adjustment leaves 0 / 0: 1 for equal partitions, else 0.

    Example:
        >>> round(ami(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])), 6)
        -0.5
    """
    table = contingency(labels, clusters)
    if len(table.common) == len(table.classes) == len(table.clusters):
        return 1.0  # one cell in each row and column: equal up to names
    if 1 in (len(table.classes), len(table.clusters)):
        return 0.0
    expected = expected_information(table.classes, table.clusters)
    room = _mean_entropy(table) - expected
    return (_information(table) - expected) / room if abs(room) > 1e-12 else 0.0


def pair_f1(labels: Tensor, clusters: Tensor) -> float:
    """F1 of the decision "these two belong together", over all pairs. Manning et al., 2008, 16.3.

    Without any pair in one class or in one cluster there is nothing to be wrong about: 1.

    Example:
        >>> pair_f1(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0, 1]))
        0.4
    """
    table = contingency(labels, clusters)
    right, in_class, in_cluster = (int((n * (n - 1)).sum()) for n in (table.common, table.classes, table.clusters))
    return 2 * right / (in_class + in_cluster) if in_class + in_cluster else 1.0


def expected_information(classes: Tensor, clusters: Tensor) -> float:
    r"""Mean mutual information of random partitions with these class and cluster sizes.

    .. math::
        E[I] = \sum_{a, b} \sum_{n} \frac{n}{N} \log\frac{N n}{a b}
               \frac{\binom{a}{n} \binom{N - a}{b - n}}{\binom{N}{b}}

    It depends on the sizes only, so equal sizes are computed once: thousands of classes cost little.

    Example:
        >>> round(expected_information(torch.tensor([2, 2]), torch.tensor([2, 2])), 6)
        0.231049
    """
    total = int(classes.sum())
    log_factorial = torch.lgamma(torch.arange(1, total + 2, dtype=torch.float64, device=classes.device))
    sizes, times = torch.unique(clusters, return_counts=True)
    expected = 0.0
    for size, repeated in zip(*(part.tolist() for part in torch.unique(classes, return_counts=True)), strict=True):
        n = torch.arange(1, size + 1, device=classes.device)[:, None]
        possible = (n <= sizes) & (total - size - sizes + n >= 0)
        rest, leave = (sizes - n).clamp(min=0), (total - size - sizes + n).clamp(min=0)
        log_chance = (
            log_factorial[size] - log_factorial[n] - log_factorial[size - n]
            + log_factorial[total - size] - log_factorial[rest] - log_factorial[leave]
            - log_factorial[total] + log_factorial[sizes] + log_factorial[total - sizes]
        )  # fmt: skip
        gain = n.double() / total * torch.log(total * n.double() / (size * sizes))
        each = torch.where(possible, gain * log_chance.exp(), 0.0).sum(dim=0)
        expected += repeated * float((each * times).sum())
    return expected


def _information(table: Contingency) -> float:
    """Mutual information of classes and clusters, in nats, never negative."""
    share = table.common.double() / table.total
    ratio = table.common.double() * table.total / (table.of_class.double() * table.of_cluster.double())
    return max(0.0, float((share * ratio.log()).sum()))


def _mean_entropy(table: Contingency) -> float:
    """Arithmetic mean of the entropies of classes and clusters, in nats."""
    shares = [sizes.double() / table.total for sizes in (table.classes, table.clusters)]
    return -sum(float((share * share.log()).sum()) for share in shares) / 2
