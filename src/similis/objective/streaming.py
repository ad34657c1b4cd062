"""Reductions in tiles: forward keeps one value per row, backward makes each tile again.

Nothing of the size rows x columns is kept. For a log-sum-exp the backward pass knows the softmax
weights from the row's value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.objective.plan import Plan, Span
from similis.objective.reductions import INF, Reduced, Term, Top, aligned, evaluate, merge, restricted
from similis.objective.store import refuse_second_derivative


class Streamed(torch.autograd.Function):
    """The reduction of a plan; inputs are the tokens of both stores and the values that the loss passes on."""

    @staticmethod
    def forward(  # the tokens tie the result to both stores in the graph
        ctx: Any,
        plan: Plan,
        row_token: Tensor,  # noqa: ARG004
        column_token: Tensor,  # noqa: ARG004
        *values: Tensor,
    ) -> tuple[Tensor, ...]:
        """Reduce tile by tile; keep one value per row."""
        results: list[list[Reduced]] = []
        kinds: list[str] = []
        for first, last, spans in plan.spans():
            row: list[Reduced] | None = None
            for span in spans or [Span(first, last, 0, 1, True)]:
                terms = plan.terms(span, plan.leaves(span, values))
                if not spans:  # no column to meet: the value of an empty set
                    nothing = torch.zeros((last - first, 1), dtype=torch.bool, device=plan.rows.raw.device)
                    terms = tuple(restricted(term, nothing) for term in terms)
                kinds = [term.kind for term in terms]
                part = [numbered(evaluate(term), term, span, plan) for term in terms]
                row = part if row is None else [merge(*x) for x in zip(kinds, row, part, strict=True)]
            results.append(row or [])
        joined = [joined_rows([row[i] for row in results]) for i in range(len(kinds))]
        ctx.plan, ctx.kinds = plan, kinds
        keep = [r for r, kind in zip(joined, kinds, strict=True) if kind == "lse" and isinstance(r, Tensor)]
        ctx.save_for_backward(*values, *keep)
        ctx.values = len(values)
        out = [x for r in joined for x in (r if isinstance(r, Top) else (r,))]
        ctx.mark_non_differentiable(
            *[x for r in joined if isinstance(r, Top) for x in r], *[x for x in out if not x.is_floating_point()]
        )
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        """Make each tile again and add its gradient to the stores."""
        refuse_second_derivative()
        plan: Plan = ctx.plan
        values, keep = ctx.saved_tensors[: ctx.values], list(ctx.saved_tensors[ctx.values :])
        weights = row_weights(ctx.kinds, gradients, keep)
        needs = ctx.needs_input_grad[3:]
        collected = [torch.zeros_like(v) if need else None for v, need in zip(values, needs, strict=True)]
        for _, _, spans in plan.spans():
            for span in spans:
                backward_tile(plan, span, values, weights, collected)
        token = torch.zeros((), dtype=plan.rows.dtype, device=plan.rows.raw.device)
        return None, token, token, *collected


class Weight(NamedTuple):
    """What a term's values are multiplied by on the way back: the row's gradient, and its log-sum-exp."""

    gradient: Tensor | None
    peak: Tensor | None


def row_weights(kinds: list[str], gradients: Sequence[Tensor], keep: list[Tensor]) -> list[Weight]:
    """One weight per term; tops and counts have none."""
    out, place = [], 0
    for kind in kinds:
        if kind == "top":
            out.append(Weight(None, None))
            place += 2
            continue
        # an empty set (-inf) gives weights of 0
        peak = torch.where(keep[0] > -INF, keep.pop(0), INF) if kind == "lse" else None
        out.append(Weight(gradients[place], peak))
        place += 1
    return out


def backward_tile(
    plan: Plan, span: Span, values: Sequence[Tensor], weights: list[Weight], collected: list[Tensor | None]
) -> None:
    """Make a tile again and carry its gradient to the stores and to the values."""
    leaves = [x.detach() for x in plan.leaves(span, values)]
    skip, ends = plan.skip, plan.counts[1]
    train = plan.rows.wants_gradient or plan.columns.wants_gradient
    wanted = [train] * skip + [c is not None for c in collected]
    for number in range(ends, len(values)):  # a further product also trains the columns
        wanted[skip + number] = wanted[skip + number] or plan.columns.wants_gradient
    leaves = [x.requires_grad_(want and x.is_floating_point()) for x, want in zip(leaves, wanted, strict=True)]
    with torch.enable_grad():
        terms = plan.terms(span, leaves)
    pairs = [
        (t.values, tile_weight(t, w, span))
        for t, w in zip(terms, weights, strict=True)
        if w.gradient is not None and t.values.requires_grad
    ]
    live = [x for x in leaves if x.requires_grad]
    if not pairs or not live:
        return
    found = iter(torch.autograd.grad([v for v, _ in pairs], live, [w for _, w in pairs], allow_unused=True))
    got = [next(found) if x.requires_grad else None for x in leaves]
    carry(plan, span, got, values, collected)


def tile_weight(term: Term, weight: Weight, span: Span) -> Tensor:
    """The derivative of the row's value with respect to each value of the tile, times the row's gradient."""
    assert weight.gradient is not None
    gradient = weight.gradient[span.first : span.last].unsqueeze(1)
    if weight.peak is None:
        out = gradient.expand_as(term.values)
    else:
        out = (term.values.detach() - weight.peak[span.first : span.last].unsqueeze(1)).exp_().mul_(gradient)
    return out if term.where is None else torch.where(aligned(term.where, out), out, 0.0)


def carry(
    plan: Plan, span: Span, got: list[Tensor | None], values: Sequence[Tensor], collected: list[Tensor | None]
) -> None:
    """Gradients of a tile's leaves to the stores and to the values that the loss passed on."""
    carry_products(plan, span, got)
    begin, ends = plan.counts
    for number, gradient in enumerate(got[plan.skip :]):
        own = collected[number]
        if gradient is None:
            continue
        if number >= ends:
            carry_further(plan, span, gradient, values[number], own)
        elif own is not None and number < begin:
            own[span.first : span.last] += gradient.squeeze(1)
        elif own is not None:
            own[span.left : span.right] += gradient.squeeze(0)


def carry_products(plan: Plan, span: Span, got: list[Tensor | None]) -> None:
    """Gradients of similarities and squared norms to rows and columns."""
    first, last, left, right, _ = span
    if got[0] is not None:
        rows, columns = plan.rows.tile(first, last), plan.columns.tile(left, right)
        gradient = got[0].reshape(len(rows), -1)
        if plan.rows.wants_gradient:
            plan.rows.add(first, last, gradient, columns.flatten(0, -2))
        if plan.columns.wants_gradient:
            plan.columns.add(left, right, gradient.T, rows)
    if not plan.sphere and got[1] is not None and plan.rows.wants_gradient:
        plan.rows.add_scaled(first, last, 2 * got[1].flatten())
    if not plan.sphere and got[2] is not None and plan.columns.wants_gradient:
        plan.columns.add_scaled(left, right, 2 * got[2].flatten())


def carry_further(plan: Plan, span: Span, gradient: Tensor, vectors: Tensor, own: Tensor | None) -> None:
    """Gradients of a further product to its row vectors and to the columns."""
    first, last, left, right, _ = span
    vectors = vectors[first:last]
    stacked = vectors.ndim == 3
    if own is not None:
        columns = plan.columns.tile(left, right)
        own[first:last] += torch.einsum("rcm,cd->rmd", gradient, columns) if stacked else gradient @ columns
    if plan.columns.wants_gradient:
        wide = gradient.permute(1, 0, 2).flatten(1) if stacked else gradient.T
        plan.columns.add(left, right, wide, vectors.flatten(0, -2))


def numbered(result: Reduced, term: Term, span: Span, plan: Plan) -> Reduced:
    """Places within a tile become column numbers; among equals the lowest number is taken."""
    if not isinstance(result, Top):
        return result
    stack = term.values.shape[2] if term.values.ndim == 3 else 1
    numbers = plan.numbers[span.left : span.right]
    if term.k == 1 and plan.columns.order is not None:
        equal = (term.values == result.values) if term.where is None else (term.values == result.values) & term.where
        lowest = torch.where(equal, numbers[None], torch.iinfo(torch.int64).max).amin(1, keepdim=True)
        return Top(result.values, torch.where(result.index >= 0, lowest, -1))
    place = result.index.clamp(min=0)
    found = numbers[torch.div(place, stack, rounding_mode="floor")] * stack + place % stack
    return Top(result.values, torch.where(result.index >= 0, found, -1))


def joined_rows(parts: list[Reduced]) -> Reduced:
    """Row tiles one below the other."""
    if isinstance(parts[0], Top):
        return Top(torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts]))
    return torch.cat([p for p in parts if isinstance(p, Tensor)])
