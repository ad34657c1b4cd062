"""The three reductions of a row: ``lse`` (log-sum-exp), ``total`` (sum) and ``top`` (k largest).

A loss states, for one tile of the rows x columns matrix, which values it reduces over which
columns. How the tiles come about (one dense tile, a stream of them, tiles of other processes)
is the business of a back-end, which needs :func:`evaluate` for a tile and :func:`merge` for two.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from similis.objective.terms.gradients import lowest_exponent
from similis.values import UserError

INF = float("inf")


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
    mask = align_mask(term.where, term.values)
    return term.values & mask if term.values.dtype == torch.bool else torch.where(mask, term.values, value)


def evaluate(term: Term, first: int = 0) -> Reduced:
    """Reduce one tile whose first column has the number ``first``."""
    if term.kind == "total":
        return fill_masked(term, 0.0).sum(1)
    if term.kind == "lse":
        return safe_lse(fill_masked(term, -INF))
    return find_largest(fill_masked(term, -INF), term.k, first)


def safe_lse(values: Tensor) -> Tensor:
    """Log-sum-exp along axis 1 whose gradient is 0, not NaN, where every entry is -inf or there is none."""
    if not values.shape[1]:  # a maximum of nothing does not exist
        return values.sum(1) - INF
    peak = values.detach().amax(1)
    some = present(peak)
    peak = torch.where(some, peak, 0.0)
    mass = (values - peak.unsqueeze(1)).clamp(min=lowest_exponent(values)).exp().sum(1)
    return torch.where(some, torch.where(some, mass, 1.0).log() + peak, -INF)


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
