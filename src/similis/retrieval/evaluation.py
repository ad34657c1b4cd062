"""What was measured for every query, and the difference of two such measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from similis.registry import check_known
from similis.retrieval.intervals import DRAWS, Interval, mean_interval
from similis.values import Neighbors, UserError


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was measured, on the host; nothing is averaged away.

    Attributes:
        per_query: metric name -> (Q,) float64; NaN for a query without any match in its gallery.
        means: metric name -> mean over the counted queries (those with a match); NaN if there are none.
        whole: metrics of the whole set: NMI, AMI and pair F1, if asked for.
        matches: (Q,) R, the number of right answers in the gallery of each query.
        queries: (Q,) rows of the embedding that asked.
        labels: (Q,) class of each query; where rows have several labels, each query is one of its own.
        neighbors: for each query the nearest rows of the embedding, in the order that the metrics saw:
            of equal similarity the wrong one first. -1 and -inf where there are none.
    """

    per_query: Mapping[str, Tensor]
    means: Mapping[str, float]
    whole: Mapping[str, float]
    matches: Tensor
    queries: Tensor
    labels: Tensor
    neighbors: Neighbors

    def interval(self, metric: str, *, share: float = 0.95, draws: int = DRAWS, seed: int = 0) -> Interval:
        """The mean of a metric and its interval for other classes of the same kind: see :func:`mean_interval`."""
        check_known("metric", metric, self.per_query)
        return mean_interval(self.per_query[metric], self.labels, share=share, draws=draws, seed=seed)

    def __repr__(self) -> str:
        """The means in one line; tensors are left out."""
        words = [f"{name} {100 * value:.2f} %" for name, value in self.means.items()]
        return f"Evaluation({', '.join(words)}; {self.counted} queries, {self.excluded} more without a match)"

    @property
    def excluded(self) -> int:
        """How many queries have no match in their gallery: in no mean, as no embedding could answer them."""
        return int((self.matches == 0).sum())

    @property
    def counted(self) -> int:
        """How many queries the means are over."""
        return len(self.matches) - self.excluded


def compare(first: Evaluation, second: Evaluation, *, share: float = 0.95, seed: int = 0) -> dict[str, Interval]:
    """What the second evaluation gains over the first on the same queries: metric -> difference with its interval.

    The differences of the queries are paired, and whole classes are resampled: the interval says what to expect on
    other classes of the same kind. It does not cover the chance of training once more.

    Args:
        first: of one model.
        second: of another, on the same rows.
        share: of the intervals that cover.
        seed: of the draws.

    Example:
        >>> from similis.retrieval.evaluate import evaluate
        >>> labels = torch.arange(20) // 2
        >>> x = torch.eye(10)[labels]
        >>> noise = torch.randn(20, 10, generator=torch.Generator().manual_seed(0))
        >>> found = compare(evaluate(x + noise, labels, ks=(1,)), evaluate(x, labels, ks=(1,)))["recall@1"]
        >>> found.low > 0
        True
    """
    if not torch.equal(first.queries, second.queries) or not torch.equal(first.labels, second.labels):
        raise UserError("the evaluations have different queries; compare two models on the same rows and labels")
    return {
        name: mean_interval(second.per_query[name] - first.per_query[name], first.labels, share=share, seed=seed)
        for name in first.per_query
        if name in second.per_query
    }
