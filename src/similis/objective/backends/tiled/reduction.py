"""Reductions in tiles: forward keeps one value per row, backward makes each tile again.

Nothing of the size rows x columns is kept. For a log-sum-exp the backward pass knows the softmax
weights from the row's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from similis.objective.backends.tiled.function import Computed, Gradients, Outer
from similis.objective.backends.tiled.reader import TileReader
from similis.objective.backends.tiled.schedule import TileRange, TileSchedule
from similis.objective.backends.tiled.tile_gradient import BackwardPass, backward_tile, row_weights
from similis.objective.terms.distances import products
from similis.objective.terms.reductions import (
    INF,
    Reduced,
    Term,
    Top,
    evaluate,
    fill_masked,
    find_largest,
    merge,
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
        reduced = [repeat_rows(nothing, count) for _, nothing in self.empty]
        for span in plan.spans():
            for view, terms in evaluate_views(plan, span, values):
                for whole, term in zip(reduced, terms, strict=True):
                    merge_tile(whole, view, term, plan)
        keep = [r for r, (kind, _) in zip(reduced, self.empty, strict=True) if kind == "lse" and isinstance(r, Tensor)]
        tops = [x for r in reduced if isinstance(r, Top) for x in r]
        return Computed([x for r in reduced for x in (r if isinstance(r, Top) else (r,))], keep, tops)

    def backpropagate(self, outer: Outer) -> Gradients:
        """Make each tile again and add its gradient to the buffers."""
        plan, values = self.plan, outer.values
        weights = row_weights([kind for kind, _ in self.empty], outer.gradients, list(outer.saved))
        collected = [torch.zeros_like(v) if need else None for v, need in zip(values, outer.needs, strict=True)]
        way = BackwardPass(values, weights, collected, outer.buffers.get(plan.rows), outer.buffers.get(plan.columns))
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
            yield view, plan.within(view, plan.made(view, plan.leaves(view, similar, values)))
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
