"""The hinge over all triplets without a list of them: the positives of each anchor are sorted once.

For an anchor with positives f_p (how far they are) and a negative f_n, the triplets with value above
0 are those with f_p > f_n - margin. In the sorted list of positives they are the last ones, so one
search per negative gives their number and, from the sums of the list's ends, their total. The
gradient is a matrix of whole numbers, in how many active triplets each pair stands: nothing is
differentiated through the sort.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.objective.comparison import Comparison
from similis.objective.distances import Geometry, Likeness, products
from similis.objective.plan import Plan, Span
from similis.objective.reductions import INF, Term
from similis.objective.store import refuse_second_derivative, taken
from similis.objective.tile import Ask
from similis.objective.tile_distance import TileDistance
from similis.objective.tiled import in_tiles

FEW = 12  # positives that are compared one by one; a search in a sorted list costs as much
STRIP = 2**20  # distances held at a time: rows of a strip times all columns


class Hinges(NamedTuple):
    """Of each anchor: sum of the hinge over its triplets, their number, and how many are above 0."""

    value: Tensor
    number: Tensor
    active: Tensor


class Part(NamedTuple):
    """A strip's view of one block: where positives may stand, which they are, and who is a negative."""

    plan: Plan
    span: Span  # all columns
    band: slice
    positive: Tensor  # (r, band)
    negative: Tensor  # (r, band)


def all_triplets(p: Comparison, geometry: Geometry, margin: float) -> Hinges:
    """Hinge ``[f_ap - f_an + margin]_+`` summed over all triplets of each anchor.

    Args:
        p: anchors and references, of any number of blocks.
        geometry: what f is: ``cosine`` (-S), ``euclid2`` or ``euclid``.
        margin: in that geometry.

    Shapes: r rows -> three times (r,), the last two whole numbers. Time r M log n for M columns and
    n positives of a row beside the products, memory of a strip of rows times M.
    """
    q = in_tiles(p)
    plans = [q.plan(Ask("neg", nothing), number) for number in range(len(q.references.blocks))]
    tokens = [plans[0].rows.token, *(plan.columns.token for plan in plans)]
    with torch.autocast(p.vectors.device.type, enabled=False):
        found = _AllTriplets.apply(plans, geometry, margin, *tokens)  # type: ignore[no-untyped-call]
    return Hinges(*(q.in_order(x) for x in found))


def nothing(*_: Tensor) -> tuple[Term, ...]:
    """No reduction: the plan is asked for its tiles only."""
    return ()


class _AllTriplets(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plans: list[Plan], geometry: Geometry, margin: float, *tokens: Tensor) -> tuple[Tensor, ...]:
        ctx.plans, ctx.geometry, ctx.margin, ctx.tokens = plans, geometry, margin, len(tokens)
        ctx.save_for_backward(*[value for plan in plans for value in plan.read_again])
        value = tokens[0].new_zeros(len(plans[0].rows))
        number, active = (torch.zeros_like(value, dtype=torch.int64) for _ in range(2))
        for parts in strips_of(plans):
            part = slice(parts[0].span.first, parts[0].span.last)
            value[part], number[part], active[part] = summed(parts, geometry, margin)
        ctx.mark_non_differentiable(number, active)
        return value, number, active

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        refuse_second_derivative()
        _ = ctx.saved_tensors  # raises if what the plans read again was changed
        for parts in strips_of(taken(ctx, "plans")):
            span = parts[0].span
            carried(parts, ctx.geometry, ctx.margin, gradients[0][span.first : span.last])
        return None, None, None, *[torch.zeros_like(gradients[0].sum())] * ctx.tokens


def strips_of(plans: list[Plan]) -> Iterator[list[Part]]:
    """Strips of rows, each with its view of every block."""
    rows = len(plans[0].rows)
    height = max(1, min(plans[0].tiling.rows, STRIP // max(1, sum(len(plan.columns) for plan in plans))))
    starts = list(range(0, rows, height))
    ends = [min(start + height, rows) for start in starts]
    bands = [plan.bands(starts, ends) for plan in plans]
    for number, (first, last) in enumerate(zip(starts, ends, strict=True)):
        yield [part_of(plan, first, last, band[number]) for plan, band in zip(plans, bands, strict=True)]


def part_of(plan: Plan, first: int, last: int, band: tuple[int, int]) -> Part:
    """The view of one block; where an image may have two labels, negatives are looked up everywhere."""
    low, high = band if not plan.labelled or plan.only_band else (0, len(plan.columns))
    block = plan.part(Span(first, last, low, high, masked=True))
    labels = plan.labels_of(Span(first, last, low, high, masked=True))
    positive, negative = block.members("pos", labels), block.members("neg", labels)
    assert positive is not None
    assert negative is not None
    return Part(plan, Span(first, last, 0, len(plan.columns), masked=True), slice(low, high), positive, negative)


def leaves_of(part: Part) -> list[Tensor]:
    """Similarities of a strip with a block, and both squared norms if raw."""
    return part.plan.leaves(part.span, products(*part.plan.operands(part.span)), ())


def distance(leaves: list[Tensor], geometry: Geometry) -> Tensor:
    """How far all columns of a block are from the strip's rows."""
    if geometry not in ("euclid", "euclid2"):
        return Likeness(leaves[0], None).far(geometry)
    norms = (leaves[1], leaves[2]) if len(leaves) > 1 else (None, None)
    found: Tensor = TileDistance.apply(leaves[0], *norms, geometry == "euclid")  # type: ignore[no-untyped-call]
    return found


class Ranking(NamedTuple):
    """Sorted positives of a strip, padded by -inf in front, and which entries of all bands they were."""

    far: Tensor  # (r, n)
    place: Tensor  # (r, n)


def ranked(parts: list[Part], far: list[Tensor]) -> Ranking:
    """The positives of each row in rising order of distance."""
    masked = [torch.where(part.positive, f[:, part.band], -INF) for part, f in zip(parts, far, strict=True)]
    joined = torch.cat(masked, 1)
    most = max(int((joined > -INF).sum(1).max()), 1) if joined.numel() else 0
    place = joined.topk(min(most, joined.shape[1]), 1, sorted=False).indices
    ordered, order = joined.gather(1, place).sort(1)
    return Ranking(ordered, place.gather(1, order))


class Tally(NamedTuple):
    """In how many active triplets the pairs of a strip stand: each column of a block, each sorted positive."""

    columns: Tensor  # (r, M); 0 for what is no negative
    positives: Tensor  # (r, n)
    bounds: Tensor  # (r, M): a triplet is active if its positive is farther than this


def tallied(ranking: Ranking, part: Part, far: Tensor, margin: float) -> Tally:
    """Count the active triplets of a strip with the negatives of one block."""
    bounds = far - margin
    bounds[:, part.band].masked_fill_(~part.negative, INF)
    width = ranking.far.shape[1]
    if width <= FEW:
        columns = torch.zeros_like(bounds)
        positives = []
        for place in range(width):
            active = (bounds < ranking.far[:, place, None]).to(far.dtype)
            columns += active
            positives.append(active.sum(1))
        joined = torch.stack(positives, 1) if positives else columns[:, :0]
        return Tally(columns, joined, bounds)
    index = torch.searchsorted(ranking.far, bounds, right=True)
    first = torch.zeros((len(far), width + 1), dtype=far.dtype, device=far.device)
    first.scatter_add_(1, index, torch.ones_like(far))
    # a positive is active with every negative whose first active positive is not behind it
    return Tally((width - index).to(far.dtype), first.cumsum(1)[:, :-1], bounds)


def summed(parts: list[Part], geometry: Geometry, margin: float) -> Hinges:
    """Value, number and active triplets of a strip's rows."""
    far = [distance(leaves_of(part), geometry) for part in parts]
    ranking = ranked(parts, far)
    real = ranking.far > -INF
    near = torch.where(real, ranking.far, 0.0).double()
    # counting forgets what is no number: a NaN among the distances, or as the margin, must reach the value
    value = 0.0 * (sum(f.sum(1) for f in far).double() + margin)  # type: ignore[union-attr]
    number = active = torch.zeros_like(value, dtype=torch.int64)
    for part, f in zip(parts, far, strict=True):
        tally = tallied(ranking, part, f, margin)
        value = value + (near * tally.positives).sum(1)
        value = value - tally.bounds.masked_fill_(tally.columns == 0, 0.0).mul_(tally.columns).sum(1)
        active = active + tally.columns.sum(1, dtype=torch.float64).long()
        number = number + part.negative.sum(1) + (f.shape[1] - part.negative.shape[1])
    return Hinges(value.to(far[0].dtype), number * real.sum(1), active)


def carried(parts: list[Part], geometry: Geometry, margin: float, gradient: Tensor) -> None:
    """Add the gradient of a strip to the stores: whole numbers times the gradient of each row."""
    leaves = [[x.detach().requires_grad_() for x in leaves_of(part)] for part in parts]
    with torch.enable_grad():
        far = [distance(own, geometry) for own in leaves]
    ranking = ranked(parts, [f.detach() for f in far])
    tallies = [tallied(ranking, part, f.detach(), margin) for part, f in zip(parts, far, strict=True)]
    widths = [part.positive.shape[1] for part in parts]
    active = sum((tally.positives for tally in tallies), torch.zeros_like(ranking.far)) * (ranking.far > -INF)
    pulls = active.new_zeros((len(active), sum(widths))).scatter_(1, ranking.place, active)
    for part, own, f, tally, pull in zip(parts, leaves, far, tallies, torch.split(pulls, widths, 1), strict=True):
        weight = tally.columns.neg_()
        weight[:, part.band] += pull
        into_stores(part, torch.autograd.grad(f, own, weight.mul_(gradient[:, None]), allow_unused=True))


def into_stores(part: Part, got: tuple[Tensor | None, ...]) -> None:
    """Gradients of similarities and squared norms to rows and columns."""
    plan, span = part.plan, part.span
    rows, columns = plan.operands(span)
    if got[0] is not None and plan.rows.wants_gradient:
        plan.rows.add(span.first, span.last, got[0], columns)
    if got[0] is not None and plan.columns.wants_gradient:
        plan.columns.add(span.left, span.right, got[0].T, rows)
    if len(got) > 1 and got[1] is not None and plan.rows.wants_gradient:
        plan.rows.add_scaled(span.first, span.last, 2 * got[1].flatten())
    if len(got) > 1 and got[2] is not None and plan.columns.wants_gradient:
        plan.columns.add_scaled(span.left, span.right, 2 * got[2].flatten())
