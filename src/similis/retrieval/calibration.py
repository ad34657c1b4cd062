"""Probability that two images show the same class, from their similarity."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from similis.values import UserError

STEPS = 100  # Newton's at most; a handful suffices


class Calibration(NamedTuple):
    """The logistic function of a similarity: probability = 1 / (1 + exp(-(scale s + offset)))."""

    scale: float
    offset: float

    def probability(self, similarity: Tensor) -> Tensor:
        """Probability of the same class, for similarities of any shape."""
        return torch.sigmoid(self.scale * similarity + self.offset)


def fit_calibration(similarity: Tensor, genuine: Tensor, impostors: Tensor, *, prior: float = 0.5) -> Calibration:
    r"""Fit a logistic function to counted similarities.

    .. math::
        \max_{a, b} \; \pi \, \frac{\sum_i g_i\, \ell(y_+, s_i)}{\sum_i g_i}
        + (1 - \pi) \frac{\sum_i m_i\, \ell(y_-, s_i)}{\sum_i m_i}, \quad
        \ell(y, s) = y \log p(s) + (1 - y) \log(1 - p(s)), \; p(s) = \sigma(a s + b)

    with the targets :math:`y_+ = (G + 1)/(G + 2)` and :math:`y_- = 1/(M + 2)` of Platt (Probabilistic Outputs for
    Support Vector Machines, 1999), which keep the fit finite where genuine and impostor pairs are separable. A
    probability depends on how common genuine pairs are where it is used: that is the prior. Fit on classes that the
    model was not trained on; on training classes the probabilities come out too sure.

    Args:
        similarity: (M,) distinct or repeated.
        genuine: (M,) how many genuine pairs have it.
        impostors: (M,) how many impostor pairs have it.
        prior: share of genuine pairs where the probability is used.

    Example:
        >>> s = torch.tensor([0.1, 0.3, 0.5, 0.7])
        >>> fit = fit_calibration(s, torch.tensor([0, 2, 4, 9]), torch.tensor([90, 40, 20, 0]))
        >>> fit.probability(s).gt(0.5).tolist()
        [False, False, True, True]
    """
    positive, negative = float(genuine.sum()), float(impostors.sum())
    if not 0.0 < prior < 1.0 or not positive or not negative:
        raise UserError(
            f"prior={prior} with {positive:.0f} genuine and {negative:.0f} impostor pairs given; a fit needs a prior "
            "between 0 and 1 and pairs of both kinds"
        )
    design = torch.stack([similarity.double(), torch.ones_like(similarity, dtype=torch.float64)], dim=1)
    weights = (genuine.double() * (prior / positive), impostors.double() * ((1 - prior) / negative))
    targets = ((positive + 1) / (positive + 2), 1 / (negative + 2))
    total = weights[0] + weights[1]
    aimed = weights[0] * targets[0] + weights[1] * targets[1]

    def cost(at: Tensor) -> Tensor:
        logit = design @ at
        return (total * torch.nn.functional.softplus(logit) - aimed * logit).sum()

    found = torch.zeros(2, dtype=torch.float64)
    for _ in range(STEPS):
        p = torch.sigmoid(design @ found)
        gradient = design.T @ (total * p - aimed)
        curve = design.T @ (design * (total * p * (1 - p))[:, None]) + 1e-12 * torch.eye(2, dtype=torch.float64)
        step = torch.linalg.solve(curve, gradient)
        size = 1.0
        while size > 1e-6 and cost(found - size * step) > cost(found):
            size /= 2
        found = found - size * step
        if float(gradient.abs().max()) < 1e-12:
            break
    return Calibration(float(found[0]), float(found[1]))
