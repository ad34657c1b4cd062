"""Operations of dense comparisons with their gradient written out: fewer passes over a matrix than autograd makes.

Both have second derivatives. A compiled graph takes the plain formulas, which the compiler fuses itself.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor

Forward = TypeVar("Forward", bound=Callable[..., Any])
NOTHING = nullcontext()


def full_precision(values: Tensor) -> AbstractContextManager[Any]:
    """No autocast inside; nothing is entered where there is none, which saves microseconds of every small step."""
    kind = values.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else NOTHING


def with_signature(forward: Forward) -> Forward:
    """The function with its signature at hand: torch asks for it in every call, and finding it takes long."""
    forward.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    return forward


def lowest_exponent(values: Tensor) -> float:
    """An exponent that adds nothing: about e^-61 in float32.

    Smaller ones give numbers so small that processors compute with them a hundred times slower.
    """
    return 0.7 * math.log(torch.finfo(values.dtype).tiny)


def far_below(values: Tensor) -> float:
    """What is taken from a value that is to be left out: more than any value, less than the largest number."""
    return 0.25 * torch.finfo(values.dtype).max


def scale_gradient(value: Tensor, factor: float) -> Tensor:
    """The value as it is, with its gradient times a factor."""
    same = value.view_as(value)
    if same.requires_grad:
        same.register_hook(lambda gradient: gradient * factor)  # type: ignore[no-untyped-call]
    return same


class Gram(torch.autograd.Function):
    """Products of rows with themselves, X X^T. One product for the gradient, (G + G^T) X, instead of two."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(rows: Tensor) -> Tensor:
        """(r, D) -> (r, r)."""
        return rows @ rows.T

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        """Keep the rows."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """(r, r) -> (r, D), in full precision also inside autocast."""
        rows: Tensor = ctx.saved_tensors[0]
        with full_precision(rows):
            return (gradients[0] + gradients[0].T) @ rows


def row_lse(values: Tensor, bias: Tensor | None, outside: Tensor | None = None) -> Tensor:
    """Log-sum-exp of each row over a set of columns; -inf, with gradient 0, where there are none.

    Args:
        values: (r, c, ...).
        bias: added to the values; columns whose bias is ``-far_below`` are left out.
        outside: (r, m, ...) numbers of further columns that are left out.
    """
    found: tuple[Tensor, ...] = RowLse.apply(values, bias, outside)  # type: ignore[no-untyped-call]
    return found[0]


class RowLse(torch.autograd.Function):
    """:func:`row_lse` with what its gradient needs: the weight of each column and their sums."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(values: Tensor, bias: Tensor | None, outside: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(r, c, ...) -> (r, ...), weights (r, c, ...), their sums (r, 1, ...)."""
        inside = values if bias is None else values + bias
        if outside is not None:
            inside = inside.scatter(1, outside, -far_below(values))
        peak = inside.amax(1, keepdim=True).clamp_min_(-far_below(values) / 2)  # an empty set lies below; NaN stays
        least = lowest_exponent(values)
        weights = inside - peak
        if weights.is_cpu:  # there an exponential of -inf takes five times as long; the threshold gives the same
            weights = weights.clamp_min_(least)
        weights = weights.exp_()
        torch.threshold_(weights, 1.001 * math.exp(least), 0.0)
        mass = weights.sum(1, keepdim=True)
        return (mass.log() + peak).squeeze(1), weights, mass.clamp_min_(0.5)  # 1 at least, but for an empty set

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        """Keep values, weights and sums."""
        ctx.save_for_backward(inputs[0], *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None]:
        """The weight of each column times the row's gradient."""
        values, weights, mass = ctx.saved_tensors
        outer = gradients[0]
        if outer is None:
            return None, None, None
        if torch.is_grad_enabled():
            found: Tensor = LseGradient.apply(outer, values, weights / mass)  # type: ignore[no-untyped-call]
            return found, None, None
        return weights * (outer.unsqueeze(1) / mass), None, None


class LseGradient(torch.autograd.Function):
    """The gradient of :class:`RowLse` as a function of values and outer gradient, for second derivatives."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(outer: Tensor, values: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG004
        """The weight of each column times the row's gradient."""
        return weights * outer.unsqueeze(1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        """Keep the outer gradient and the weights."""
        ctx.save_for_backward(inputs[0], inputs[2])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """Of the outer gradient: the mean of the gradient by weight; of the values: what departs from it."""
        outer, weights = ctx.saved_tensors
        mean = (gradients[0] * weights).sum(1, keepdim=True)
        return mean.squeeze(1), weights * (gradients[0] - mean) * outer.unsqueeze(1), None
