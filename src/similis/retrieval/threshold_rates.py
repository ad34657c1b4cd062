"""What a threshold accepts: rates of each class, of drawn classes, and how much classes differ under one threshold."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.pair_similarities import LabelledPairs

OPIS_STEPS = 101


class Accepted(NamedTuple):
    """Pairs that T falling thresholds accept, float64; the last column counts all pairs.

    Attributes:
        genuine: (K, T + 1) genuine pairs of each class.
        impostors: (K, T + 1) impostor pairs with one end in each class.
    """

    genuine: Tensor
    impostors: Tensor


def count_accepted(pairs: LabelledPairs, thresholds: Tensor) -> Accepted:
    """Count the pairs with a similarity of at least each threshold, in one pass.

    Args:
        pairs: to compare.
        thresholds: (T,) falling.
    """
    k, t = len(pairs.names), len(thresholds) + 1
    all_too = torch.cat([thresholds.double(), thresholds.new_full((1,), -torch.inf, dtype=torch.float64)])
    rising = round_up(all_too).flip(0).to(pairs.vectors.device)
    genuine = torch.zeros(k * t, dtype=torch.long, device=rising.device)
    impostors = torch.zeros_like(genuine)
    for tile in pairs:
        step = t - torch.searchsorted(rising, tile.similarity, right=True, out_int32=True)  # first that accepts
        same = tile.first == tile.second
        genuine += torch.bincount(tile.first[same] * t + step[same], minlength=k * t)
        for end in (tile.first, tile.second):
            impostors += torch.bincount(end[~same] * t + step[~same], minlength=k * t)
    return Accepted(*(counts.view(k, t).cumsum(1).double().cpu() for counts in (genuine, impostors)))


def rates(times: Tensor, accepted: Accepted) -> tuple[Tensor, Tensor]:
    r"""False and true accept rates where class k is drawn :math:`c_k` times.

    .. math::
        \mathrm{FAR}(t) = \frac{\sum_{k<l} (c_k + c_l - 1) A_{kl}(t)}{\sum_{k<l} (c_k + c_l - 1) N_{kl}}, \quad
        \mathrm{TAR}(t) = \frac{\sum_k c_k G_k(t)}{\sum_k c_k G_k}

    Both classes of an impostor pair are resampled: :math:`c_k + c_l - 1` is the projection of the product
    :math:`c_k c_l` on single classes. With :math:`4\zeta_1/K + 2\zeta_2/K^2` the variance of such a mean over pairs of
    classes (Hoeffding 1948), draws with the product have :math:`6\zeta_2/K^2` in its second term, draws with the
    projection :math:`4\zeta_2/K^2`: intervals of the FAR are a little too wide where single pairs of classes decide.

    Shapes: (R, K) -> (R, T), (R, T).
    """
    genuine = times @ accepted.genuine
    impostors = (times @ accepted.impostors - accepted.impostors.sum(0) / 2).clamp(min=0)
    return impostors[:, :-1] / impostors[:, -1:], genuine[:, :-1] / genuine[:, -1:]


def at_rates(far: Tensor, values: Tensor, wanted: Tensor) -> Tensor:
    """Values (R, T) of thresholds with rising ``far`` (R, T), interpolated at the false accept rates wanted (F,)."""
    right = torch.searchsorted(far.contiguous(), wanted.expand(len(far), -1).contiguous(), right=True)
    right = right.clamp(1, far.shape[1] - 1)
    low, high = far.gather(1, right - 1), far.gather(1, right)
    part = ((wanted - low) / (high - low)).nan_to_num(0.0, 0.0, 0.0).clamp(0, 1)
    return torch.lerp(values.gather(1, right - 1), values.gather(1, right), part)


def equal_error(far: Tensor, tar: Tensor) -> Tensor:
    """The error rate (R,) at which FAR (R, T), rising, meets FRR = 1 - TAR, interpolated between thresholds."""
    gap = far - (1 - tar)
    return at_rates(gap, far, far.new_zeros(1))[:, 0]


def class_utility(accepted: Accepted) -> Tensor:
    """Harmonic mean (C, T) of sensitivity and specificity of each class that has a genuine pair."""
    kept = (accepted.genuine[:, -1] > 0) & (accepted.impostors[:, -1] > 0)
    sensitivity = accepted.genuine[kept, :-1] / accepted.genuine[kept, -1:]
    specificity = 1 - accepted.impostors[kept, :-1] / accepted.impostors[kept, -1:]
    both = sensitivity + specificity
    return torch.where(both > 0, 2 * sensitivity * specificity / both, 0.0)


def opis(pairs: LabelledPairs, low: float, high: float) -> float:
    r"""Operating-point inconsistency score: how differently one threshold serves the classes; 0 is best.

    .. math::
        \mathrm{OPIS} = \frac{1}{C (d_1 - d_0)} \sum_i \int_{d_0}^{d_1} \big(U_i(d) - \bar U(d)\big)^2 \, \mathrm{d}d,
        \quad U_i = \frac{2 \phi_i \psi_i}{\phi_i + \psi_i}

    with sensitivity :math:`\phi_i` (share of the genuine pairs of class i accepted at distance d), specificity
    :math:`\psi_i` (share of the impostor pairs with one end in class i refused) and their mean over classes
    :math:`\bar U`. The distance is the Euclidean one of unit vectors, :math:`d^2 = 2 - 2s`. The integral is taken by
    the trapezoidal rule at 101 distances. Zhang et al., Threshold-Consistent Margin Loss for Open-World Deep Metric
    Learning, ICLR 2024 (arXiv 2307.04047), where the range lies between the FARs 0.01 and 0.1.

    Args:
        pairs: to compare; classes without a genuine pair are left out.
        low: similarity at the end of the range, that of the larger FAR.
        high: similarity at its beginning.
    """
    near, far = (max(0.0, 2 - 2 * s) ** 0.5 for s in (high, low))
    distance = torch.linspace(near, far, OPIS_STEPS, dtype=torch.float64)
    utility = class_utility(count_accepted(pairs, 1 - distance**2 / 2))
    spread = (utility - utility.mean(0)).square().mean(0)
    return float(torch.trapezoid(spread, dx=1 / (OPIS_STEPS - 1)))


def round_up(thresholds: Tensor) -> Tensor:
    """Thresholds in float32 that accept the same float32 similarities."""
    near = thresholds.float()
    return torch.where(
        near.double() < thresholds.double(), torch.nextafter(near, torch.full_like(near, torch.inf)), near
    )
