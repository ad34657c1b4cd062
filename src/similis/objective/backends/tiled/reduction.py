"""Reductions in tiles: forward keeps one value per row, backward makes each tile again.

Nothing of the size rows x columns is kept. For a log-sum-exp the backward pass knows the softmax
weights from the row's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.backends.tiled.function import Computed, Gradients, Outer
from similis.objective.backends.tiled.reader import GradientBuffer, TileReader
from similis.objective.backends.tiled.schedule import TileRange, TileSchedule
from similis.objective.terms.distances import products
from similis.objective.terms.reductions import (
    INF,
    Reduced,
    Term,
    Top,
    align_mask,
    evaluate,
    fill_masked,
    find_largest,
    lowest_exponent,
    merge,
    present,
    sum_exponentials,
)
from similis.objective.terms.tile import transpose_term


@dataclass(frozen=True)
class Reduction:
    """A step that reduces over the columns of a plan; its values are those that the loss passes on.

    Attributes:
        plan: what is read.
        empty: for each term, its kind and what it gives for an empty set.
    """

    plan: TileSchedule
    empty: list[tuple[str, Reduced]]

    def readers(self) -> list[TileReader]:
        """Rows and columns."""
        return [self.plan.rows, self.plan.columns]

    def compute(self, values: Sequence[Tensor]) -> Computed:
        """Reduce tile by tile; keep one value per row."""
        plan, count = self.plan, len(self.plan.rows)
        joined = [repeat_rows(nothing, count) for _, nothing in self.empty]
        for span in plan.spans():
            for view, terms in evaluate_views(plan, span, values):
                for whole, term in zip(joined, terms, strict=True):
                    merge_tile(whole, view, term, plan)
        keep = [r for r, (kind, _) in zip(joined, self.empty, strict=True) if kind == "lse" and isinstance(r, Tensor)]
        tops = [x for r in joined if isinstance(r, Top) for x in r]
        return Computed([x for r in joined for x in (r if isinstance(r, Top) else (r,))], keep, tops)

    def backpropagate(self, outer: Outer) -> Gradients:
        """Make each tile again and add its gradient to the buffers."""
        plan, values = self.plan, outer.values
        weights = row_weights([kind for kind, _ in self.empty], outer.gradients, list(outer.saved))
        collected = [torch.zeros_like(v) if need else None for v, need in zip(values, outer.needs, strict=True)]
        way = BackwardPass(values, weights, collected, outer.buffers.of(plan.rows), outer.buffers.of(plan.columns))
        for span in plan.spans():
            backward_tile(plan, span, way)
        return collected


def evaluate_views(
    plan: TileSchedule, span: TileRange, values: Sequence[Tensor]
) -> Iterator[tuple[TileRange, tuple[Term, ...]]]:
    """The terms of a tile and, if it stands for it, of its mirror image, made once where both are alike."""
    similarity = products(*plan.operands(span))
    if not (plan.mutual and span.mirrored):
        for view, similar in span.views(similarity):
            yield view, plan.terms(view, plan.leaves(view, similar, values))
        return
    made = plan.made(span, plan.leaves(span, similarity, values))
    yield span, plan.within(span, made)
    yield span.mirror, plan.within(span.mirror, [transpose_term(term) for term in made])


def reduce_nothing(term: Term) -> Reduced:
    """The reduction of an empty set, (1, ...), from a term that was seen on one cell."""
    empty = evaluate(term, mask=torch.zeros((1, 1), dtype=torch.bool, device=term.values.device))
    return empty if isinstance(empty, Top) else empty.detach()


def repeat_rows(nothing: Reduced, rows: int) -> Reduced:
    """What an empty set gives, for every row."""
    if isinstance(nothing, Top):
        return Top(nothing.values.repeat(rows, 1), nothing.index.repeat(rows, 1))
    return nothing.repeat(rows, *[1] * (nothing.ndim - 1))


def merge_tile(whole: Reduced, span: TileRange, term: Term, plan: TileSchedule) -> None:
    """Join a tile's reduction with what its rows have so far."""
    part = slice(span.first, span.last)
    if isinstance(whole, Top):
        best = merge("top", Top(whole.values[part], whole.index[part]), top_of_tile(term, span, plan))
        whole.values[part], whole.index[part] = best[0], best[1]
    elif term.kind == "total":
        whole[part] += fill_masked(term, 0.0).sum(1)
    else:
        torch.logaddexp(whole[part], sum_exponentials(fill_masked(term, -INF))[0], out=whole[part])


class Weight(NamedTuple):
    """What a term's values are multiplied by on the way back: the row's gradient, and its log-sum-exp."""

    gradient: Tensor | None
    peak: Tensor | None


class BackwardPass(NamedTuple):
    """What a backward pass takes along: the values, weights of the terms, gradients of the values, both buffers."""

    values: Sequence[Tensor]
    weights: list[Weight]
    collected: list[Tensor | None]
    rows: GradientBuffer | None
    columns: GradientBuffer | None


def row_weights(kinds: list[str], gradients: Gradients, keep: list[Tensor]) -> list[Weight]:
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


def backward_tile(plan: TileSchedule, span: TileRange, way: BackwardPass) -> None:
    """Make a tile again and carry its gradient to the buffers and to the values."""
    rows, columns = plan.operands(span)
    gradient: Tensor | None = None
    similarity = products(rows, columns)
    both = plan.mutual and span.mirrored
    for view, similar in [(span, similarity)] if both else span.views(similarity):
        got = gradients_of(plan, view, similar, way)
        if got is None:
            continue
        add_value_gradients(plan, view, got, way)
        if got[0] is not None:
            own = got[0] if view is span else got[0].T
            gradient = own if gradient is None else gradient + own
    if gradient is None:
        return
    flat = gradient.reshape(len(rows), -1)
    if way.rows is not None:
        way.rows.add(span.first, span.last, flat, columns.flatten(0, -2))
    if way.columns is not None:
        way.columns.add(span.left, span.right, flat.T, rows)


def gradients_of(
    plan: TileSchedule, view: TileRange, similarity: Tensor, way: BackwardPass
) -> list[Tensor | None] | None:
    """Gradients of a tile's leaves, None for those that want none; None if nobody does."""
    skip, ends = plan.skip, plan.counts[1]
    train = way.rows is not None or way.columns is not None
    wanted = [train] * skip + [c is not None for c in way.collected]
    for number in range(ends, len(way.values)):  # a further product also trains the columns
        wanted[skip + number] = wanted[skip + number] or way.columns is not None
    bare = plan.leaves(view, similarity, way.values)
    leaves = [x.detach().requires_grad_(w and x.is_floating_point()) for x, w in zip(bare, wanted, strict=True)]
    with torch.enable_grad():
        made = plan.made(view, leaves)
    pairs = [
        (t.values, weight_of_views(plan, view, t, w))
        for t, w in zip(made, way.weights, strict=True)
        if w.gradient is not None and t.values.requires_grad
    ]
    live = [x for x in leaves if x.requires_grad]
    if not pairs or not live:
        return None
    found = iter(torch.autograd.grad([v for v, _ in pairs], live, [w for _, w in pairs], allow_unused=True))
    return [next(found) if x.requires_grad else None for x in leaves]


def weight_of_views(plan: TileSchedule, span: TileRange, term: Term, weight: Weight) -> Tensor:
    """The weight of a tile's values, with that of its mirror image where the values stand for it too."""
    (own,) = plan.within(span, [term])
    found = tile_weight(own, weight, span)
    if not (plan.mutual and span.mirrored):
        return found
    (other,) = plan.within(span.mirror, [transpose_term(term)])
    return found + tile_weight(other, weight, span.mirror).transpose(0, 1)


def tile_weight(term: Term, weight: Weight, span: TileRange) -> Tensor:
    """The derivative of the row's value with respect to each value of the tile, times the row's gradient."""
    assert weight.gradient is not None
    gradient = weight.gradient[span.first : span.last].unsqueeze(1)
    if weight.peak is None:
        out = gradient.expand_as(term.values)
    else:
        out = term.values.detach() - weight.peak[span.first : span.last].unsqueeze(1)
        out = out.clamp_(min=lowest_exponent(out)).exp_().mul_(gradient)
    return out if term.where is None else torch.where(align_mask(term.where, out), out, 0.0)


def add_value_gradients(plan: TileSchedule, span: TileRange, got: list[Tensor | None], way: BackwardPass) -> None:
    """Gradients of a tile's squared norms to the buffers, and of the values that the loss passed on to those."""
    if not plan.sphere and got[1] is not None and way.rows is not None:
        way.rows.add_scaled(span.first, span.last, 2 * got[1].flatten())
    if not plan.sphere and got[2] is not None and way.columns is not None:
        way.columns.add_scaled(span.left, span.right, 2 * got[2].flatten())
    begin, ends = plan.counts
    for number, gradient in enumerate(got[plan.skip :]):
        own = way.collected[number]
        if gradient is None:
            continue
        if number >= ends:
            add_product_gradients(plan, span, gradient, number, way)
        elif own is not None and number < begin:
            own[span.first : span.last] += gradient.squeeze(1)
        elif own is not None:
            own[span.left : span.right] += gradient.squeeze(0)


def add_product_gradients(
    plan: TileSchedule, span: TileRange, gradient: Tensor, number: int, way: BackwardPass
) -> None:
    """Gradients of a further product to its row vectors and to the columns."""
    first, last, left, right, *_ = span
    vectors, own = way.values[number][first:last], way.collected[number]
    stacked = vectors.ndim == 3
    if own is not None:
        columns = plan.columns.tile(left, right)
        own[first:last] += torch.einsum("rcm,cd->rmd", gradient, columns) if stacked else gradient @ columns
    if way.columns is not None:
        wide = gradient.permute(1, 0, 2).flatten(1) if stacked else gradient.T
        way.columns.add(left, right, wide, vectors.flatten(0, -2))


def has_ties(values: Tensor, found: Top) -> bool:
    """Whether the largest value of some row comes more than once."""
    best = found.values.view(-1, *[1] * (values.ndim - 1))
    return bool((((values == best) & (best > -INF)).flatten(1).sum(1) > 1).any())


def lowest_of_largest(values: Tensor, numbers: Tensor) -> Top:
    """The largest of each row (r, c) with the lowest of its column numbers, whether there are ties or not."""
    best, place = values.max(1, keepdim=True)
    none = torch.iinfo(numbers.dtype).max
    index = torch.where(values == best, numbers, none).amin(1, keepdim=True)
    index = torch.where(index == none, numbers[place], index)  # NaN is equal to nothing
    return Top(best, torch.where(best == -INF, -1, index))


def top_of_tile(term: Term, span: TileRange, plan: TileSchedule) -> Top:
    """The largest of a tile with their column numbers; among equals the lowest number is taken."""
    numbers = plan.numbers(span.left, span.right)
    values = fill_masked(term, -INF)
    if plan.columns.order is not None and term.k == 1 and values.ndim == 2 and values.shape[1] and not values.is_cpu:
        return lowest_of_largest(values, numbers)
    found = find_largest(values, term.k)
    if plan.columns.order is not None and (term.k > 1 or has_ties(values, found)):
        numbers, order = numbers.sort()  # now the lowest place is the lowest number
        found = find_largest(values[:, order], term.k)
    stack = values.shape[2] if values.ndim == 3 else 1
    place = found.index.clamp(min=0)
    index = numbers[torch.div(place, stack, rounding_mode="floor")] * stack + place % stack
    return Top(found.values, torch.where(found.index >= 0, index, -1))
