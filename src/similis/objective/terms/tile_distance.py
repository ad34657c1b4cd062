"""Distances of a tile with their gradient written out: half of the passes over memory that autograd makes.

The same numbers as ``distances``, which stays what dense comparisons use: this one has no second derivative.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from similis.objective.terms.distances import rounding_noise


class TileDistance(torch.autograd.Function):
    """Similarities (r, c) and squared norms (r, 1) and (1, c), None on the unit sphere, to distances (r, c)."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, rows: Tensor | None, columns: Tensor | None, root: bool) -> Tensor:
        """Distances, squared unless ``root``; 0 where only rounding is left."""
        far = squared_distance(s, rows, columns)
        if root:
            far.sqrt_()
        ctx.save_for_backward(far)
        ctx.root, ctx.raw = root, rows is not None
        return far

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients -2 and 1 of the squared distance, divided by twice the distance for its root; 0 at 0."""
        (far,) = ctx.saved_tensors
        slope = gradients[0] / far if ctx.root else gradients[0] * 2
        slope = torch.ops.aten.threshold_backward(slope, far, 0.0)  # 0 where the distance is 0; NaN stays NaN
        half = [slope.sum(1, keepdim=True) / 2, slope.sum(0, keepdim=True) / 2] if ctx.raw else [None, None]
        return slope.neg_(), half[0], half[1], None


def squared_distance(s: Tensor, rows: Tensor | None, columns: Tensor | None) -> Tensor:
    """Squared distances as a new tensor, 0 where only rounding is left."""
    noise = rounding_noise(s)
    if rows is None or columns is None:
        return torch.threshold_(torch.rsub(s, 2.0, alpha=2), 2.0 * noise, 0.0)
    far = torch.sub(columns, s, alpha=2).add_(rows)
    # on the host one look at the smallest spares two passes; a device would have to be waited for
    if s.is_cpu and s.numel() and bool(far.amin() > noise * (rows.amax() + columns.amax())):
        return far
    return far.masked_fill_(far <= noise * rows + noise * columns, 0.0)
