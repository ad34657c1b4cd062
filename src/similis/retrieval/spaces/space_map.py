r"""Linear maps from one embedding space to another, fitted on items that both have embedded.

Two networks give vectors that cannot be compared. A map :math:`y \approx (x - \bar x) W + \bar y`, fitted on pairs
(x, y) of the same items, makes the vectors of one comparable with those of the other, at a loss of accuracy.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from similis.sphere import unit

KINDS = ("orthogonal", "ridge 0.01", "ridge 0.1", "ridge 1", "low-rank 0.25", "low-rank 0.5")
HELD_OUT = 5  # a fifth of the classes chooses the kind


class SpaceMap(NamedTuple):
    """Vectors x to the unit vectors of ``(x - source) @ weight + target``.

    Attributes:
        kind: one of ``KINDS``.
        weight: (D, E).
        source: (D,) mean of the vectors it was fitted on.
        target: (E,) mean of their counterparts.
    """

    kind: str
    weight: Tensor
    source: Tensor
    target: Tensor

    def __call__(self, vectors: Tensor) -> Tensor:
        """(N, D) -> (N, E)."""
        return unit((vectors - self.source) @ self.weight + self.target)


def fit_map(kind: str, x: Tensor, y: Tensor) -> SpaceMap:
    """A map from x (N, D) to y (N, E), row by row.

    Args:
        kind: ``orthogonal`` (a rotation and a scale), ``ridge`` with a penalty in mean variances of a coordinate, or
            ``low-rank``, the regression with the penalty 0.1 onto a share of its leading directions.
        x: vectors of the space to leave.
        y: vectors of the same items in the other space.

    Reference: rotations are Schoenemann's (Procrustes, 1966), regressions of reduced rank Izenman's (1975);
    "Drift-Adapter" (arXiv 2509.23471) compares such maps for vector stores.

    Example:
        >>> x = torch.nn.functional.normalize(torch.randn(200, 8, generator=torch.Generator().manual_seed(0)), dim=1)
        >>> turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(1)))[0]
        >>> bool(((fit_map("orthogonal", x, x @ turn)(x) * (x @ turn)).sum(1) > 0.99).all())
        True
    """
    name, _, setting = kind.partition(" ")
    source, target = x.mean(0), y.mean(0)
    a, b = x - source, y - target
    cross, gram = a.T @ b, a.T @ a
    size = gram.diagonal().mean().clamp_min(1e-12)
    if name == "orthogonal":
        left, values, right = torch.linalg.svd(cross, full_matrices=False)
        return SpaceMap(kind, values.sum() / (size * len(gram)) * (left @ right), source, target)
    penalty = float(setting) if name == "ridge" else 0.1
    weight = torch.linalg.solve(gram + penalty * size * torch.eye(len(gram)).to(gram), cross)
    if name == "low-rank":
        rank = max(1, round(float(setting) * min(weight.shape)))
        leading = torch.linalg.eigh(weight.T @ gram @ weight)[1][:, -rank:]
        weight = weight @ leading @ leading.T
    return SpaceMap(kind, weight, source, target)


def choose_kind(x: Tensor, y: Tensor, labels: Tensor) -> str:
    """The kind of map from x (N, D) to y (N, E) with the highest mean cosine to the counterparts on held-out classes.

    Items without a class (-1) are classes of their own.
    """
    groups = torch.where(labels < 0, labels.max() + 1 + torch.arange(len(labels)), labels)
    held = groups % HELD_OUT == 0
    if not bool(held.any()) or int((~held).sum()) < 2:
        return KINDS[0]
    tried = [fit_map(kind, x[~held], y[~held]) for kind in KINDS]
    scores = [float((each(x[held]) * unit(y[held])).sum(1).mean()) for each in tried]
    return KINDS[max(range(len(scores)), key=scores.__getitem__)]
