"""The gradient of one tile: made again in the backward pass, and added to the buffers of rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.backends.tiled.function import Gradients
from similis.objective.backends.tiled.reader import GradientBuffer
from similis.objective.backends.tiled.schedule import TileRange, TileSchedule
from similis.objective.terms.distances import products
from similis.objective.terms.reductions import INF, Term, align_mask, lowest_exponent, present
from similis.objective.terms.tile import transpose_term


def add_similarity_gradient(
    span: TileRange,
    gradient: Tensor,
    operands: tuple[Tensor, Tensor],
    of_rows: GradientBuffer | None,
    of_columns: GradientBuffer | None,
) -> None:
    """Add the gradient of a tile's similarities, (r, c) or (r, c, K), to the buffers of its operands."""
    rows, columns = operands
    flat = gradient.reshape(len(rows), -1)
    if of_rows is not None:
        of_rows.add(span.first, span.last, flat, columns.flatten(0, -2))
    if of_columns is not None:
        of_columns.add(span.left, span.right, flat.T, rows)


def add_norm_gradients(
    span: TileRange, got: Gradients, of_rows: GradientBuffer | None, of_columns: GradientBuffer | None
) -> None:
    """Add the gradients of a tile's squared norms, which come behind that of its similarities, to the buffers."""
    if got[1] is not None and of_rows is not None:
        of_rows.add_scaled(span.first, span.last, 2 * got[1].flatten())
    if got[2] is not None and of_columns is not None:
        of_columns.add_scaled(span.left, span.right, 2 * got[2].flatten())


class Weight(NamedTuple):
    """What a term's values are multiplied by in the backward pass: the row's gradient, and its log-sum-exp."""

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
    if gradient is not None:
        add_similarity_gradient(span, gradient, (rows, columns), way.rows, way.columns)


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
    if not plan.sphere:
        add_norm_gradients(span, got, way.rows, way.columns)
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
