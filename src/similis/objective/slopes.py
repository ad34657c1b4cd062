"""Operations of dense comparisons with their slope written out: fewer passes over a matrix than autograd makes.

Both have second derivatives. A compiled graph takes the plain formulas, which the compiler fuses itself.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def lowest(values: Tensor) -> float:
    """An exponent that adds nothing: about e^-61 in float32.

    Smaller ones give numbers so small that processors compute with them a hundred times slower.
    """
    return 0.7 * math.log(torch.finfo(values.dtype).tiny)


def far_below(values: Tensor) -> float:
    """What is taken from a value that is to be left out: more than any value, less than the largest number."""
    return 0.25 * torch.finfo(values.dtype).max


class Gram(torch.autograd.Function):
    """Products of rows with themselves, X X^T. One product for the slope, (G + G^T) X, instead of two."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        """(r, D) -> (r, r)."""
        ctx.save_for_backward(rows)
        return rows @ rows.T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """(r, r) -> (r, D)."""
        rows: Tensor = ctx.saved_tensors[0]
        return (gradients[0] + gradients[0].T) @ rows


class RowLse(torch.autograd.Function):
    """Log-sum-exp of each row over a set of columns; -inf, with slope 0, where there are none."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, bias: Tensor | None, outside: Tensor | None = None) -> Tensor:
        """(r, c, ...) -> (r, ...); left out are columns whose bias is ``-far_below``, and those listed as outside."""
        inside = values if bias is None else values + bias
        if outside is not None:
            inside = inside.scatter(1, outside, -far_below(values))
        peak = inside.amax(1, keepdim=True).clamp_(min=-far_below(values) / 2)  # an empty set lies below; NaN stays
        least = lowest(values)
        weights = (inside - peak).clamp_(min=least).exp_()  # of -inf an exponential takes five times as long
        torch.threshold_(weights, 1.001 * math.exp(least), 0.0)
        mass = weights.sum(1, keepdim=True)
        ctx.save_for_backward(values, weights, mass.clamp(min=0.5))  # 1 at least, but for an empty set
        return (mass.log_() + peak).squeeze(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """The weight of each column times the row's slope."""
        values, weights, mass = ctx.saved_tensors
        if torch.is_grad_enabled():
            found: Tensor = LseSlope.apply(gradients[0], values, weights / mass)  # type: ignore[no-untyped-call]
            return found, None, None
        return weights * (gradients[0].unsqueeze(1) / mass), None, None


class LseSlope(torch.autograd.Function):
    """The slope of :class:`RowLse` as a function of values and outer slope, for second derivatives."""

    @staticmethod
    def forward(ctx: Any, outer: Tensor, values: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG004
        """The weight of each column times the row's slope."""
        ctx.save_for_backward(outer, weights)
        return weights * outer.unsqueeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """Of the outer slope: the mean of the gradient by weight; of the values: what departs from it."""
        outer, weights = ctx.saved_tensors
        mean = (gradients[0] * weights).sum(1, keepdim=True)
        return mean.squeeze(1), weights * (gradients[0] - mean) * outer.unsqueeze(1), None
