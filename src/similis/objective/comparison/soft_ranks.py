"""Ranks with a gradient: how many columns stand before each positive of a row, counted by sigmoids."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.comparison.compare import Comparison
from similis.objective.terms.reductions import total


class SoftRanks(NamedTuple):
    """For each positive of each row, all (r, m): rank among the positives, negatives before it, whether it is real."""

    among_positives: Tensor
    negatives_before: Tensor
    real: Tensor


def soft_ranks(p: Comparison, temperature: float) -> SoftRanks:
    r"""Place of every positive of a row, with a sigmoid in place of the step.

    .. math::
        r^+_{ij} = 1 + \sum_{q \in P_i, q \ne j} \sigma\big((S_{iq} - S_{ij}) / T\big), \qquad
        r^-_{ij} = \sum_{n \in N_i} \sigma\big((S_{in} - S_{ij}) / T\big)

    Args:
        p: rows and references; the row itself is in neither set.
        temperature: T; towards 0 the ranks become whole numbers.

    Shapes: r rows with at most m positives each -> three times (r, m); where ``real`` does not hold
    the values pad.
    """
    index, real = p.positives()
    own = p.at(index).s
    before = torch.sigmoid((own[:, None, :] - own[:, :, None]) / temperature)
    itself = torch.eye(own.shape[1], dtype=torch.bool, device=own.device)
    among = 1 + torch.where(real[:, None, :] & ~itself, before, 0.0).sum(-1)
    ahead = p.neg(lambda t, s: total(torch.sigmoid((t.s[..., None] - s) / temperature)), rows=(own,))
    return SoftRanks(among, ahead, real)
