r"""Ranking metrics of one query each, all from the ranks of its matches.

Side by side, with R matches of a query at the ranks :math:`r_1 < r_2 < \dots < r_R`, counted from 1::

    recall@k      1 if r_1 <= k else 0                        a match among the first k (what papers call R@k)
    precision@k   |{m: r_m <= k}| / k                         the share of matches among the first k
    R-precision   |{m: r_m <= R}| / R                         precision at the k that fits the query
    MAP@R         1/R sum over m with r_m <= R of m / r_m     also asks for the right order within the first R
    MRR           1 / r_1                                     how soon the first match comes

Ties are pessimistic: :math:`r_m = m + |\{\text{non-matches with } s \ge s_m\}|`, so a non-match of equal
similarity stands before the match, and a collapsed model cannot score by the luck of the order.
A query without any match has no value: NaN, to be left out of the mean and counted by the caller.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BEYOND = 2**62  # a rank later than any cut that is asked for, or no match at all


class Ranks(NamedTuple):
    """Ranks (Q, W) of the matches of each query, rising, :data:`BEYOND` where none; matches per query (Q,).

    The first rank is always exact. Later ones are exact up to the largest cut (k or R), BEYOND after it.
    """

    ranks: Tensor
    matches: Tensor


def recall_at_k(found: Ranks, k: int) -> Tensor:
    """1 if a match is among the first k, else 0: (Q,). Jegou et al., PAMI 2011; Song et al., CVPR 2016.

    Example:
        >>> recall_at_k(Ranks(torch.tensor([[2, 3]]), torch.tensor([2])), 1).tolist()
        [0.0]
    """
    return _leave_out_unmatched((_first(found) <= k).double(), found)


def precision_at_k(found: Ranks, k: int) -> Tensor:
    """The share of matches among the first k, out of k even when the gallery is smaller: (Q,).

    Example:
        >>> precision_at_k(Ranks(torch.tensor([[2, 3]]), torch.tensor([2])), 4).tolist()
        [0.5]
    """
    return _leave_out_unmatched((found.ranks <= k).sum(dim=1).double() / k, found)


def r_precision(found: Ranks) -> Tensor:
    """The share of matches among the first R, R being the number of matches: (Q,). Musgrave et al., ECCV 2020.

    Example:
        >>> r_precision(Ranks(torch.tensor([[2, 3]]), torch.tensor([2]))).tolist()
        [0.5]
    """
    return _leave_out_unmatched((found.ranks <= found.matches[:, None]).sum(dim=1).double() / found.matches, found)


def map_at_r(found: Ranks) -> Tensor:
    """Mean over the first R places of the precision at each match, 0 at a non-match: (Q,).

    Musgrave, Belongie, Lim: A Metric Learning Reality Check, ECCV 2020. R does not count the query itself.

    Example:
        >>> map_at_r(Ranks(torch.tensor([[2, 3]]), torch.tensor([2]))).tolist()
        [0.25]
    """
    number = torch.arange(1, found.ranks.shape[1] + 1, device=found.ranks.device)
    counted = found.ranks <= found.matches[:, None]
    precision = torch.where(counted, number / found.ranks.double(), 0.0)
    return _leave_out_unmatched(precision.sum(dim=1) / found.matches, found)


def reciprocal_rank(found: Ranks) -> Tensor:
    """One over the rank of the first match: (Q,). Its mean is MRR; Voorhees, TREC-8 1999.

    Example:
        >>> reciprocal_rank(Ranks(torch.tensor([[2, 3]]), torch.tensor([2]))).tolist()
        [0.5]
    """
    return _leave_out_unmatched(1.0 / _first(found).double(), found)


def _first(found: Ranks) -> Tensor:
    """Rank of the first match (Q,)."""
    if found.ranks.shape[1] == 0:
        return torch.full_like(found.matches, BEYOND)
    return found.ranks[:, 0]


def _leave_out_unmatched(values: Tensor, found: Ranks) -> Tensor:
    """The values, NaN where the query has no match."""
    return torch.where(found.matches > 0, values, torch.nan)
