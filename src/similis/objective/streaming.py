"""Reductions in tiles: forward keeps one value per row, backward makes each tile again.

Nothing of the size rows x columns is kept. For a log-sum-exp the backward pass knows the softmax
weights from the row's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.objective.distances import products
from similis.objective.plan import Plan, Span
from similis.objective.reductions import (
    INF,
    Reduced,
    Term,
    Top,
    aligned,
    evaluate,
    filled,
    largest,
    merge,
    present,
    restricted,
)
from similis.objective.slopes import lowest
from similis.objective.store import refuse_second_derivative, taken
from similis.objective.tile import turned


class Streamed(torch.autograd.Function):
    """The reduction of a plan; inputs are the tokens of both stores and the values that the loss passes on."""

    @staticmethod
    def forward(  # the tokens tie the result to both stores in the graph
        ctx: Any,
        plan: Plan,
        probed: Sequence[Term],
        row_token: Tensor,  # noqa: ARG004
        column_token: Tensor,  # noqa: ARG004
        *values: Tensor,
    ) -> tuple[Tensor, ...]:
        """Reduce tile by tile; keep one value per row."""
        kinds = [term.kind for term in probed]
        joined = [of_nothing(term, len(plan.rows)) for term in probed]
        for part, place in plan.parts():
            here = plan.here(values, place)
            for span in part.spans():
                for view, terms in viewed(part, span, here):
                    for whole, term in zip(joined, terms, strict=True):
                        put(whole, view, term, part)
        ctx.plan, ctx.kinds, ctx.values = plan, kinds, len(values)
        keep = [r for r, kind in zip(joined, kinds, strict=True) if kind == "lse" and isinstance(r, Tensor)]
        ctx.save_for_backward(*values, *keep, *plan.read_again)
        out = [x for r in joined for x in (r if isinstance(r, Top) else (r,))]
        ctx.mark_non_differentiable(
            *[x for r in joined if isinstance(r, Top) for x in r], *[x for x in out if not x.is_floating_point()]
        )
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        """Make each tile again and add its gradient to the stores."""
        refuse_second_derivative()
        values, keep = ctx.saved_tensors[: ctx.values], list(ctx.saved_tensors[ctx.values :])
        plan: Plan = taken(ctx, "plan")
        weights = row_weights(ctx.kinds, gradients, keep)
        needs = ctx.needs_input_grad[4:]
        collected = [torch.zeros_like(v) if need else None for v, need in zip(values, needs, strict=True)]
        for part, place in plan.parts(back=True):
            way = Back(plan.here(values, place), weights, plan.here(collected, place))
            for span in part.spans():
                backward_tile(part, span, way)
        token = torch.zeros((), dtype=plan.rows.dtype, device=plan.rows.raw.device)
        return None, None, token, token, *collected


def viewed(plan: Plan, span: Span, values: Sequence[Tensor]) -> Iterator[tuple[Span, tuple[Term, ...]]]:
    """The terms of a tile and, if it stands for it, of its mirror image, made once where both are alike."""
    similarity = products(*plan.operands(span))
    if not (plan.mutual and span.mirrored):
        for view, similar in span.views(similarity):
            yield view, plan.terms(view, plan.leaves(view, similar, values))
        return
    made = plan.made(span, plan.leaves(span, similarity, values))
    yield span, plan.within(span, made)
    yield span.mirror, plan.within(span.mirror, [turned(term) for term in made])


def of_nothing(term: Term, rows: int) -> Reduced:
    """The reduction of an empty set for every row, from a term that was seen on one cell."""
    empty = evaluate(restricted(term, torch.zeros((1, 1), dtype=torch.bool, device=term.values.device)))
    if isinstance(empty, Top):
        return Top(empty.values.repeat(rows, 1), empty.index.repeat(rows, 1))
    return empty.detach().repeat(rows, *[1] * (empty.ndim - 1))


def put(whole: Reduced, span: Span, term: Term, plan: Plan) -> None:
    """Join a tile's reduction with what its rows have so far."""
    part = slice(span.first, span.last)
    if isinstance(whole, Top):
        best = merge("top", Top(whole.values[part], whole.index[part]), numbered(term, span, plan))
        whole.values[part], whole.index[part] = best[0], best[1]
    elif term.kind == "total":
        whole[part] += filled(term, 0.0).sum(1)
    else:
        torch.logaddexp(whole[part], tile_lse(filled(term, -INF)), out=whole[part])


def tile_lse(values: Tensor) -> Tensor:
    """Log-sum-exp along axis 1, without a graph."""
    peak = values.amax(1)
    some = present(peak)
    peak = torch.where(some, peak, 0.0)
    mass = (values - peak.unsqueeze(1)).clamp_(min=lowest(values)).exp_().sum(1)
    return torch.where(some, mass.log_().add_(peak), -INF)


class Weight(NamedTuple):
    """What a term's values are multiplied by on the way back: the row's gradient, and its log-sum-exp."""

    gradient: Tensor | None
    peak: Tensor | None


class Back(NamedTuple):
    """What a way back takes along: values that the loss passed on, weights of the terms, gradients of the values."""

    values: Sequence[Tensor]
    weights: list[Weight]
    collected: list[Tensor | None]


def row_weights(kinds: list[str], gradients: Sequence[Tensor], keep: list[Tensor]) -> list[Weight]:
    """One weight per term; tops and counts have none."""
    out, place = [], 0
    for kind in kinds:
        if kind == "top":
            out.append(Weight(None, None))
            place += 2
            continue
        # an empty set (-inf) gives weights of 0
        peak = torch.where(present(keep[0]), keep.pop(0), INF) if kind == "lse" else None
        out.append(Weight(gradients[place], peak))
        place += 1
    return out


def backward_tile(plan: Plan, span: Span, way: Back) -> None:
    """Make a tile again and carry its gradient to the stores and to the values."""
    rows, columns = plan.operands(span)
    gradient: Tensor | None = None
    similarity = products(rows, columns)
    both = plan.mutual and span.mirrored
    for view, similar in [(span, similarity)] if both else span.views(similarity):
        got = gradients_of(plan, view, similar, way)
        if got is None:
            continue
        carry(plan, view, got, way)
        if got[0] is not None:
            own = got[0] if view is span else got[0].T
            gradient = own if gradient is None else gradient + own
    if gradient is None:
        return
    flat = gradient.reshape(len(rows), -1)
    if plan.rows.wants_gradient:
        plan.rows.add(span.first, span.last, flat, columns.flatten(0, -2))
    if plan.columns.wants_gradient:
        plan.columns.add(span.left, span.right, flat.T, rows)


def gradients_of(plan: Plan, view: Span, similarity: Tensor, way: Back) -> list[Tensor | None] | None:
    """Gradients of a tile's leaves, None for those that want none; None if nobody does."""
    skip, ends = plan.skip, plan.counts[1]
    train = plan.rows.wants_gradient or plan.columns.wants_gradient
    wanted = [train] * skip + [c is not None for c in way.collected]
    for number in range(ends, len(way.values)):  # a further product also trains the columns
        wanted[skip + number] = wanted[skip + number] or plan.columns.wants_gradient
    bare = plan.leaves(view, similarity, way.values)
    leaves = [x.detach().requires_grad_(w and x.is_floating_point()) for x, w in zip(bare, wanted, strict=True)]
    with torch.enable_grad():
        made = plan.made(view, leaves)
    pairs = [
        (t.values, of_views(plan, view, t, w))
        for t, w in zip(made, way.weights, strict=True)
        if w.gradient is not None and t.values.requires_grad
    ]
    live = [x for x in leaves if x.requires_grad]
    if not pairs or not live:
        return None
    found = iter(torch.autograd.grad([v for v, _ in pairs], live, [w for _, w in pairs], allow_unused=True))
    return [next(found) if x.requires_grad else None for x in leaves]


def of_views(plan: Plan, span: Span, term: Term, weight: Weight) -> Tensor:
    """The weight of a tile's values, with that of its mirror image where the values stand for it too."""
    (own,) = plan.within(span, [term])
    found = tile_weight(own, weight, span)
    if not (plan.mutual and span.mirrored):
        return found
    (other,) = plan.within(span.mirror, [turned(term)])
    return found + tile_weight(other, weight, span.mirror).transpose(0, 1)


def tile_weight(term: Term, weight: Weight, span: Span) -> Tensor:
    """The derivative of the row's value with respect to each value of the tile, times the row's gradient."""
    assert weight.gradient is not None
    gradient = weight.gradient[span.first : span.last].unsqueeze(1)
    if weight.peak is None:
        out = gradient.expand_as(term.values)
    else:
        out = term.values.detach() - weight.peak[span.first : span.last].unsqueeze(1)
        out = out.clamp_(min=lowest(out)).exp_().mul_(gradient)
    return out if term.where is None else torch.where(aligned(term.where, out), out, 0.0)


def carry(plan: Plan, span: Span, got: list[Tensor | None], way: Back) -> None:
    """Gradients of a tile's squared norms to the stores, and of the values that the loss passed on to those."""
    if not plan.sphere and got[1] is not None and plan.rows.wants_gradient:
        plan.rows.add_scaled(span.first, span.last, 2 * got[1].flatten())
    if not plan.sphere and got[2] is not None and plan.columns.wants_gradient:
        plan.columns.add_scaled(span.left, span.right, 2 * got[2].flatten())
    begin, ends = plan.counts
    for number, gradient in enumerate(got[plan.skip :]):
        own = way.collected[number]
        if gradient is None:
            continue
        if number >= ends:
            carry_further(plan, span, gradient, way.values[number], own)
        elif own is not None and number < begin:
            own[span.first : span.last] += gradient.squeeze(1)
        elif own is not None:
            own[span.left : span.right] += gradient.squeeze(0)


def carry_further(plan: Plan, span: Span, gradient: Tensor, vectors: Tensor, own: Tensor | None) -> None:
    """Gradients of a further product to its row vectors and to the columns."""
    first, last, left, right, *_ = span
    vectors = vectors[first:last]
    stacked = vectors.ndim == 3
    if own is not None:
        columns = plan.columns.tile(left, right)
        own[first:last] += torch.einsum("rcm,cd->rmd", gradient, columns) if stacked else gradient @ columns
    if plan.columns.wants_gradient:
        wide = gradient.permute(1, 0, 2).flatten(1) if stacked else gradient.T
        plan.columns.add(left, right, wide, vectors.flatten(0, -2))


def tied(values: Tensor, found: Top) -> bool:
    """Whether the largest value of some row comes more than once."""
    best = found.values.view(-1, *[1] * (values.ndim - 1))
    return bool((((values == best) & (best > -INF)).flatten(1).sum(1) > 1).any())


def numbered(term: Term, span: Span, plan: Plan) -> Top:
    """The largest of a tile with their column numbers; among equals the lowest number is taken."""
    numbers = plan.numbers(span.left, span.right)
    values = filled(term, -INF)
    found = largest(values, term.k)
    if plan.columns.order is not None and (term.k > 1 or tied(values, found)):
        numbers, order = numbers.sort()  # now the lowest place is the lowest number
        found = largest(values[:, order], term.k)
    stack = values.shape[2] if values.ndim == 3 else 1
    place = found.index.clamp(min=0)
    index = numbers[torch.div(place, stack, rounding_mode="floor")] * stack + place % stack
    return Top(found.values, torch.where(found.index >= 0, index, -1))
