"""The three reductions of a row: ``lse`` (log-sum-exp), ``total`` (sum) and ``top`` (k largest).

A loss states, for one tile of the rows x columns matrix, which values it reduces over which columns. A back-end makes
the tiles (one, a stream of them, those of other ranks) and needs :func:`evaluate` for one and :func:`merge` for two.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from similis.objective.terms.gradients import with_signature
from similis.values import UserError

INF = float("inf")
# Numbers of a matrix up to which plain operators are used. Measured, forward and backward of a log-sum-exp
# over a set, on a busy core: 0.44 ms against 0.50 for the written-out gradient at 8 x 8, 0.29 against 0.49 at 32 x 32,
# 0.32 against 0.29 at 64 x 64, 1.7 against 1.2 at 181 x 181.
DIRECT = 2**12


class Term(NamedTuple):
    """Reduce ``values`` (r, c) or (r, c, m) along the columns, where ``where`` holds."""

    kind: Literal["lse", "total", "top"]
    values: Tensor
    where: Tensor | None
    k: int = 1


class Top(NamedTuple):
    """The k largest of each row, without gradient: values (-inf where the set is too small) and columns (-1)."""

    values: Tensor
    index: Tensor  # type: ignore[assignment]  # nobody asks a tuple of tensors for its .index()


Reduced = Tensor | Top


def lse(values: Tensor, where: Tensor | None = None) -> Term:
    """Log-sum-exp over the columns; an empty set gives -inf (``softplus`` of it is an exact 0)."""
    return Term("lse", values, where)


def total(values: Tensor, where: Tensor | None = None) -> Term:
    """Sum over the columns; an empty set gives 0."""
    return Term("total", values, where)


def count(where: Tensor) -> Term:
    """Number of columns for which ``where`` holds, an exact integer; 0 for an empty set."""
    if where.dtype != torch.bool:
        raise UserError(f"count takes a condition, such as t.s > 0; given {where.dtype}: total adds numbers")
    return Term("total", where, None)


def top(values: Tensor, where: Tensor | None = None, k: int = 1) -> Term:
    """The k largest with their column numbers; ties go to the lowest column; never differentiated."""
    return Term("top", values.detach(), where, k)


def softplus(rows: Tensor) -> Tensor:
    """``log(1 + e^x)`` to the last digit of float64 (PyTorch's default turns linear at 20)."""
    return functional.softplus(rows, threshold=40.0)


def present(rows: Tensor) -> Tensor:
    """Rows whose log-sum-exp had something to sum; NaN counts as something, or it would vanish from the loss."""
    return rows != -INF


def as_terms(made: Term | tuple[Term, ...]) -> tuple[Term, ...]:
    """What a loss's function returned, as a tuple."""
    if isinstance(made, Term):
        return (made,)
    found: list[Any] = []
    for term in made if isinstance(made, tuple) else ():
        if isinstance(term, Term):
            found.append(term)
    if found and len(found) == len(made):
        return tuple(found)
    raise UserError(f"a function of a tile returned {type(made).__name__}; return lse, total, top or count of it")


def restrict(term: Term, mask: Tensor | None) -> Term:
    """The term over the columns of ``mask`` only."""
    if mask is None:
        return term
    return term._replace(
        where=mask if term.where is None else align_mask(mask, term.where) & align_mask(term.where, mask)
    )


def align_mask(mask: Tensor, like: Tensor) -> Tensor:
    """A mask (r, c) with the trailing axis of values (r, c, m)."""
    return mask[..., None] if mask.ndim < like.ndim else mask


def fill_masked(term: Term, value: float) -> Tensor:
    """Values with ``value`` at the columns that are left out."""
    if term.where is None:
        return term.values
    values, mask = term.values, term.where
    mask = mask[..., None] if mask.ndim < values.ndim else mask  # as align_mask has it, without a call
    return values & mask if values.dtype == torch.bool else torch.where(mask, values, value)


def evaluate(term: Term, first: int = 0, mask: Tensor | None = None) -> Reduced:
    """Reduce one tile whose first column has the number ``first``, over the columns of ``mask``."""
    if mask is not None:
        term = term._replace(where=mask) if term.where is None else restrict(term, mask)
    values = term.values
    if term.kind == "total":
        if isinstance(term.where, Tensor) and term.where.ndim < values.ndim and values.is_floating_point():
            return torch.einsum("rc,rcm->rm", term.where.to(values.dtype), values)  # one product, no r c m choices
        return fill_masked(term, 0.0).sum(1)
    if term.kind == "top":
        return find_largest(fill_masked(term, -INF), term.k, first)
    if torch.compiler.is_compiling() or not values.shape[1]:  # a compiler fuses the plain formula itself
        return safe_lse(fill_masked(term, -INF))
    if values.is_cpu and values.numel() <= DIRECT:
        least = far_below(values)  # finite, so that the gradient of an empty row is 0 and not NaN
        inside = fill_masked(term, least)
        peak = inside.detach().amax(1, keepdim=True)
        found = (inside - peak).exp().sum(1).log() + peak.squeeze(1)
        return torch.where(found < least / 2, -INF, found)
    where = None if term.where is None else align_mask(term.where, values)
    parts: tuple[Tensor, ...] = RowLse.apply(values, where)  # type: ignore[no-untyped-call]
    return parts[0]


def safe_lse(values: Tensor) -> Tensor:
    """Log-sum-exp along axis 1 whose gradient is 0, not NaN, where every entry is -inf or there is none."""
    if not values.shape[1]:  # a maximum of nothing does not exist
        return values.sum(1) - INF
    peak = values.detach().amax(1)
    some = present(peak)
    peak = torch.where(some, peak, 0.0)
    mass = (values - peak.unsqueeze(1)).clamp(min=lowest_exponent(values)).exp().sum(1)
    return torch.where(some, torch.where(some, mass, 1.0).log() + peak, -INF)


def lowest_exponent(values: Tensor) -> float:
    """An exponent that adds nothing: about e^-61 in float32.

    Smaller ones give numbers so small that processors compute with them a hundred times slower.
    """
    return 0.7 * math.log(torch.finfo(values.dtype).tiny)


def far_below(values: Tensor) -> float:
    """What stands for a value that is left out: below any value, above the lowest number."""
    return -0.25 * torch.finfo(values.dtype).max


def sum_exponentials(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-sum-exp (r, ...) of values (r, c, ...), the weight of each column, and their sums (r, 1, ...); no graph.

    What is :func:`far_below` or less counts for nothing; a row of nothing else gives -inf.
    """
    peak = values.amax(1, keepdim=True).clamp_min_(far_below(values) / 2)  # an empty set lies below; NaN stays
    least = lowest_exponent(values)
    weights = values - peak
    if weights.is_cpu:  # there an exponential of -inf takes five times as long; the threshold gives the same
        weights = weights.clamp_min_(least)
    weights = weights.exp_()
    torch.threshold_(weights, 1.001 * math.exp(least), 0.0)
    mass = weights.sum(1, keepdim=True)
    return (mass.log() + peak).squeeze(1), weights, mass.clamp_min_(0.5)  # 1 at least, but for an empty set


class RowLse(torch.autograd.Function):
    """Log-sum-exp of each row over the columns of a mask; -inf, with gradient 0, where there are none.

    Its gradient is written out: fewer passes over a matrix than autograd makes, second derivatives included.
    """

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(values: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(r, c, ...) -> (r, ...), weights (r, c, ...), their sums (r, 1, ...)."""
        return sum_exponentials(values if where is None else torch.where(where, values, far_below(values)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        """Keep values, weights and sums."""
        ctx.save_for_backward(inputs[0], *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        """The weight of each column times the row's gradient."""
        values, weights, mass = ctx.saved_tensors
        outer = gradients[0]
        if outer is None:
            return None, None
        if torch.is_grad_enabled():
            found: Tensor = LseGradient.apply(outer, values, weights / mass)  # type: ignore[no-untyped-call]
            return found, None
        return weights * (outer.unsqueeze(1) / mass), None


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


def leading_places(flat: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row and their places in falling order; among equals the lowest place comes first."""
    if k == 1 and flat.shape[1]:
        found, index = flat.max(1, keepdim=True)
        return found, index
    if not torch.compiler.is_compiling() and 8 * k < flat.shape[1]:
        index = leading_set(flat, k).sort(1).values
        if not flat.is_cpu:
            found, order = flat.gather(1, index).sort(dim=1, descending=True, stable=True)
            return found, index.gather(1, order)
        found, order = flat.gather(1, index).sort(dim=1, descending=True, stable=True)
        if is_false(((flat >= found[:, -1:]).sum(1) > k).any()):  # no rival of the last one was left out
            return found, index.gather(1, order)
    found, index = flat.sort(dim=1, descending=True, stable=True)
    return found[:, :k], index[:, :k]


def leading_set(flat: Tensor, k: int) -> Tensor:
    """Places of the k largest of each row; on a device, where a look at ties would be waited for, the lowest of equals.

    There every place has a number of its own: above the k-th largest value all come first, then the lowest at it.
    """
    values, index = flat.topk(k, 1)
    if flat.is_cpu:
        return index
    width, edge = flat.shape[1], values[:, -1:]
    falling = torch.arange(width, 0, -1, device=flat.device)
    return torch.where(flat > edge, falling + width, torch.where(flat == edge, falling, 0)).topk(k, 1).indices


def is_false(value: Tensor) -> bool:
    """Whether a value is known to be false: under ``torch.vmap`` nothing is known."""
    try:
        return not bool(value)
    except RuntimeError:
        return False


def find_largest(values: Tensor, k: int, first: int = 0) -> Top:
    """The k largest of (r, c) or, over all K vectors of all columns, of (r, c, K)."""
    stack = values.shape[2] if values.ndim == 3 else 1
    found, index = leading_places(values.flatten(1), k)
    index = index + first * stack
    index = index.masked_fill(found == -INF, -1)
    short = k - found.shape[1]
    if short > 0:
        found = functional.pad(found, (0, short), value=-INF)
        index = functional.pad(index, (0, short), value=-1)
    return Top(found, index)


def merge(kind: str, left: Reduced, right: Reduced) -> Reduced:
    """Join the reductions of two tiles of the same rows."""
    if isinstance(left, Top) and isinstance(right, Top):
        if left.values.shape[1] == 1:
            later = (right.values > left.values) | ((right.values == left.values) & (right.index < left.index))
            return Top(*(torch.where(later, new, old) for new, old in zip(right, left, strict=True)))
        index, place = torch.cat([left.index, right.index], 1).sort(dim=1)  # among equals the lowest column wins
        found = torch.cat([left.values, right.values], 1).gather(1, place)
        found, place = found.sort(dim=1, descending=True, stable=True)
        k = left.values.shape[1]
        return Top(found[:, :k], index.gather(1, place[:, :k]))
    if isinstance(left, Top) or isinstance(right, Top):
        raise TypeError("a top cannot be merged with another reduction")
    return left + right if kind == "total" else safe_lse(torch.stack([left, right], 1))
