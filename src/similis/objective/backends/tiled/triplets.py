"""The hinge over all triplets without a list of them: the positives of each anchor are sorted once.

For an anchor with positives f_p (how far they are) and a negative f_n, the triplets with value above
0 are those with f_p > f_n - margin. In the sorted list of positives they are the last ones, so one
search per negative gives their number and, from the sums of the list's ends, their total. The
gradient is a matrix of whole numbers, in how many active triplets each pair stands: nothing is
differentiated through the sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.backends.protocol import Hinges
from similis.objective.backends.tiled.function import Buffers, Computed, Gradients, Outer
from similis.objective.backends.tiled.reader import TileReader
from similis.objective.backends.tiled.schedule import TileRange, TileSchedule
from similis.objective.backends.tiled.tile_gradient import add_norm_gradients, add_similarity_gradient
from similis.objective.terms.distances import Geometry, Similarities, products
from similis.objective.terms.reductions import INF
from similis.objective.terms.tile_distance import TileDistance

FEW = 12  # positives that are compared one by one; a search in a sorted list costs as much
STRIP, DEVICE_STRIP = 2**20, 2**25  # distances held at a time: rows of a strip times all columns


class Part(NamedTuple):
    """A strip's view of one block: where positives may stand, which they are, and who is a negative."""

    plan: TileSchedule
    span: TileRange  # all columns
    band: slice
    positive: Tensor  # (r, band)
    negative: Tensor  # (r, band)
    most: int | None  # positives of a row at most, as labels on the host tell; None where the mask can be asked


@dataclass(frozen=True)
class TripletHinges:
    """The step that sums the hinges of each anchor over all blocks."""

    plans: list[TileSchedule]
    geometry: Geometry
    margin: float

    def readers(self) -> list[TileReader]:
        """Rows, and the columns of each block."""
        return [self.plans[0].rows, *(plan.columns for plan in self.plans)]

    def compute(self, values: Sequence[Tensor]) -> Computed:  # noqa: ARG002
        """Value, number and active triplets of each anchor."""
        rows = self.plans[0].rows
        value = torch.zeros(len(rows), dtype=rows.dtype, device=rows.raw.device)
        number, active = (torch.zeros_like(value, dtype=torch.int64) for _ in range(2))
        for parts in iterate_strips(self.plans):
            part = slice(parts[0].span.first, parts[0].span.last)
            value[part], number[part], active[part] = sum_hinges(parts, self.geometry, self.margin)
        return Computed([value, number, active])

    def backpropagate(self, outer: Outer) -> Gradients:
        """Strip by strip."""
        gradient = outer.gradients[0]
        assert gradient is not None
        for parts in iterate_strips(self.plans):
            span = parts[0].span
            add_strip_gradient(parts, self.geometry, self.margin, gradient[span.first : span.last], outer.buffers)
        return []


def iterate_strips(plans: list[TileSchedule]) -> Iterator[list[Part]]:
    """Strips of rows, each with its view of every block."""
    rows, strip = len(plans[0].rows), STRIP if plans[0].rows.raw.is_cpu else DEVICE_STRIP
    height = max(1, min(plans[0].tiling.rows, strip // max(1, sum(len(plan.columns) for plan in plans))))
    starts = list(range(0, rows, height))
    ends = [min(start + height, rows) for start in starts]
    bands = [plan.bands(starts, ends) for plan in plans]
    for number, (first, last) in enumerate(zip(starts, ends, strict=True)):
        yield [view_block(plan, first, last, band[number]) for plan, band in zip(plans, bands, strict=True)]


def view_block(plan: TileSchedule, first: int, last: int, band: tuple[int, int]) -> Part:
    """The view of one block; where an image may have two labels, negatives are looked up everywhere."""
    whole = plan.block.private or (plan.labelled and not plan.only_band)
    low, high = (0, len(plan.columns)) if whole else band
    block = plan.part(TileRange(first, last, low, high, masked=True))
    labels = plan.labels_of(TileRange(first, last, low, high, masked=True))
    positive, negative = block.members("pos", labels), block.members("neg", labels)
    assert positive is not None
    assert negative is not None
    span = TileRange(first, last, 0, len(plan.columns), masked=True)
    return Part(plan, span, slice(low, high), positive, negative, most_positives(plan, first, last))


def most_positives(plan: TileSchedule, first: int, last: int) -> int | None:
    """Columns of the label of a row, of some rows the most, itself left out; None on the host and with a relation."""
    rows, columns = plan.row_names, plan.column_names
    if plan.rows.raw.is_cpu or rows is None or columns is None:
        return None
    wanted = rows[first:last]
    sizes = torch.searchsorted(columns, wanted, right=True) - torch.searchsorted(columns, wanted)
    return max(0, int(sizes.max()) - int(plan.block.mirrored)) if len(sizes) else 0


def strip_leaves(part: Part) -> list[Tensor]:
    """Similarities of a strip with a block, and both squared norms if raw."""
    return part.plan.leaves(part.span, products(*part.plan.operands(part.span)), ())


def distance(leaves: list[Tensor], geometry: Geometry) -> Tensor:
    """How far all columns of a block are from the strip's rows."""
    if geometry not in ("euclid", "euclid2"):
        return Similarities(leaves[0], None).far(geometry)
    norms = (leaves[1], leaves[2]) if len(leaves) > 1 else (None, None)
    found: Tensor = TileDistance.apply(leaves[0], *norms, geometry == "euclid")  # type: ignore[no-untyped-call]
    return found


class Ranking(NamedTuple):
    """Sorted positives of a strip, padded by -inf in front, and which entries of all bands they were."""

    far: Tensor  # (r, n)
    place: Tensor  # (r, n)


def rank_positives(parts: list[Part], far: list[Tensor]) -> Ranking:
    """The positives of each row in rising order of distance."""
    masked = [torch.where(part.positive, f[:, part.band], -INF) for part, f in zip(parts, far, strict=True)]
    every = torch.cat(masked, 1)
    known = [part.most for part in parts if part.most is not None]
    found = sum(known) if len(known) == len(parts) or not every.numel() else int((every > -INF).sum(1).max())
    most = max(found, 1) if every.numel() else 0
    place = every.topk(min(most, every.shape[1]), 1, sorted=False).indices
    ordered, order = every.gather(1, place).sort(1)
    return Ranking(ordered, place.gather(1, order))


class Tally(NamedTuple):
    """In how many active triplets the pairs of a strip stand: each column of a block, each sorted positive."""

    columns: Tensor  # (r, M); 0 for what is no negative
    positives: Tensor  # (r, n)
    bounds: Tensor  # (r, M): a triplet is active if its positive is farther than this


def count_active(ranking: Ranking, part: Part, far: Tensor, margin: float) -> Tally:
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
        counts = torch.stack(positives, 1) if positives else columns[:, :0]
        return Tally(columns, counts, bounds)
    index = torch.searchsorted(ranking.far, bounds, right=True)
    first = torch.zeros((len(far), width + 1), dtype=far.dtype, device=far.device)
    first.scatter_add_(1, index, torch.ones_like(far))
    # a positive is active with every negative whose first active positive is not behind it
    return Tally((width - index).to(far.dtype), first.cumsum(1)[:, :-1], bounds)


def sum_hinges(parts: list[Part], geometry: Geometry, margin: float) -> Hinges:
    """Value, number and active triplets of a strip's rows."""
    far = [distance(strip_leaves(part), geometry) for part in parts]
    ranking = rank_positives(parts, far)
    real = ranking.far > -INF
    near = torch.where(real, ranking.far, 0.0).double()
    # counting forgets what is no number: a NaN among the distances, or as the margin, must reach the value
    value = 0.0 * (sum(f.sum(1) for f in far).double() + margin)  # type: ignore[union-attr]
    number = active = torch.zeros_like(value, dtype=torch.int64)
    for part, f in zip(parts, far, strict=True):
        tally = count_active(ranking, part, f, margin)
        value = value + (near * tally.positives).sum(1)
        value = value - tally.bounds.masked_fill_(tally.columns == 0, 0.0).mul_(tally.columns).sum(1)
        active = active + tally.columns.sum(1, dtype=torch.float64).long()
        number = number + part.negative.sum(1) + (f.shape[1] - part.negative.shape[1])
    return Hinges(value.to(far[0].dtype), number * real.sum(1), active)


def add_strip_gradient(
    parts: list[Part], geometry: Geometry, margin: float, gradient: Tensor, buffers: Buffers
) -> None:
    """Add the gradient of a strip to the buffers: whole numbers times the gradient of each row."""
    leaves = [[x.detach().requires_grad_() for x in strip_leaves(part)] for part in parts]
    with torch.enable_grad():
        far = [distance(own, geometry) for own in leaves]
    ranking = rank_positives(parts, [f.detach() for f in far])
    tallies = [count_active(ranking, part, f.detach(), margin) for part, f in zip(parts, far, strict=True)]
    widths = [part.positive.shape[1] for part in parts]
    active = sum((tally.positives for tally in tallies), torch.zeros_like(ranking.far)) * (ranking.far > -INF)
    pulls = active.new_zeros((len(active), sum(widths))).scatter_(1, ranking.place, active)
    for part, own, f, tally, pull in zip(parts, leaves, far, tallies, torch.split(pulls, widths, 1), strict=True):
        weight = tally.columns.neg_()
        weight[:, part.band] += pull
        got = torch.autograd.grad(f, own, weight.mul_(gradient[:, None]), allow_unused=True)
        of_rows, of_columns = buffers.get(part.plan.rows), buffers.get(part.plan.columns)
        add_similarity_gradient(part.span, got[0], part.plan.operands(part.span), of_rows, of_columns)
        if len(got) > 1:
            add_norm_gradients(part.span, got, of_rows, of_columns)
