"""Choosing columns of rows: the small vector steps that miners are made of.

Miners work on a similarity matrix (B, M) with masks of positives and negatives. Draws come from a
generator of the processor, whatever device the matrix is on, so that they are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from similis.values import Triplets

INF = float("inf")
STRIP = 2**20  # triplets looked at at a time


def use_generator(generator: torch.Generator | None) -> torch.Generator:
    """The generator given, or a new one of seed 0: never the global state."""
    return torch.Generator().manual_seed(0) if generator is None else generator


def pair_list(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column numbers (T,), (T,) of the true entries, row by row."""
    rows, columns = mask.nonzero(as_tuple=True)
    return rows, columns


def expand_triplets(positive: Tensor, allowed: Callable[[Tensor, Tensor], Tensor]) -> Triplets:
    """Every triplet of a positive pair with the columns that it is allowed, sorted by anchor, positive, negative.

    The pairs are looked at a strip at a time: memory follows the triplets that are found, not all that there are.

    Args:
        positive: (B, M), true for the positives of each row.
        allowed: (t,) anchors and (t,) their positives -> (t, M), true for the negatives to take.
    """
    found, height = [], 1 + STRIP // max(1, positive.shape[1])
    for anchors, positives in zip(*(torch.split(numbers, height) for numbers in pair_list(positive)), strict=True):
        pair, negatives = pair_list(allowed(anchors, positives))
        found.append((anchors[pair], positives[pair], negatives))
    return Triplets(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def first_largest(values: Tensor, mask: Tensor) -> Tensor:
    """(B,) column of the largest value where ``mask`` holds, the lowest of equal ones; any column if it never does."""
    if not values.shape[1]:
        return torch.zeros(len(values), dtype=torch.int64, device=values.device)
    return torch.where(mask, values, -INF).argmax(1)


def first_below(values: Tensor, mask: Tensor, anchors: Tensor, bounds: Tensor) -> Tensor:
    """(T,) column of row ``anchors[t]`` with the largest value strictly below ``bounds[t]``; -1 if there is none.

    Each row is sorted once and searched for all of its bounds. Anchors must be in rising order.

    Args:
        values: (B, M).
        mask: (B, M), the columns that may be chosen.
        anchors: (T,).
        bounds: (T,).
    """
    falling, order = torch.where(mask, -values, INF).sort(dim=1, stable=True)  # equal values: lowest column first
    slots, real = row_slots(anchors, len(values))
    asked = torch.full(slots.shape, INF, dtype=values.dtype, device=values.device)
    asked[real] = -bounds
    place = torch.searchsorted(falling, asked, right=True)[real]
    found = place < mask.sum(1)[anchors]
    column = order[anchors, place.clamp(max=max(values.shape[1] - 1, 0))]
    return torch.where(found, column, -1)


def draw(weights: Tensor, anchors: Tensor, generator: torch.Generator, first: int = 0) -> Tensor:
    """(T,) a column of row ``anchors[t]``, drawn with replacement in proportion to its weight.

    What is drawn for a row depends on the generator and on the row's number, not on the other rows:
    ranks that have some of the rows each draw what one process with all of them draws.

    Args:
        weights: (B, M), at least 0; a row that is drawn from has one above 0.
        anchors: (T,) in rising order.
        generator: of the processor.
        first: number of the first row among the rows of all ranks.
    """
    sums = weights.double().cumsum(1)
    slots, real = row_slots(anchors, len(weights))
    key = int(torch.randint(2**62, (1,), generator=generator, device="cpu"))
    rows = torch.arange(first, first + len(weights), device="cpu")
    chance = uniform(key, rows, slots.shape[1]).to(weights.device)
    if not slots.numel():
        return torch.zeros_like(anchors)
    whole = sums[:, -1:]
    target = torch.minimum(chance * whole, torch.nextafter(whole, torch.zeros_like(whole)))
    # The first sum above the target belongs to a column of weight above 0: others do not raise the sum.
    return torch.searchsorted(sums, target, right=True)[real]


def uniform(key: int, rows: Tensor, width: int) -> Tensor:
    """(r, width) numbers in [0, 1), float64, a pure function of the key, the row's number and the place in it.

    Whole numbers mixed by multiplying and shifting, as SplitMix64 does; products wrap around at 2^64.
    """
    mixed = scramble(scramble(rows + key)[:, None] + torch.arange(width, device=rows.device))
    return torch.bitwise_and(mixed, 2**53 - 1).double() / 2**53


def scramble(whole: Tensor) -> Tensor:
    """Whole numbers, each mapped to another that looks random; int64."""
    value = whole * -0x61C8864680B583EB
    value = (value ^ shift_right(value, 30)) * -0x40A7B892E31B1A47
    value = (value ^ shift_right(value, 27)) * -0x6B2FB644ECCEEE15
    return value ^ shift_right(value, 31)


def shift_right(whole: Tensor, bits: int) -> Tensor:
    """To the right with zeros from the left, also for negative numbers."""
    return torch.bitwise_and(whole >> bits, 2 ** (64 - bits) - 1)


def row_slots(anchors: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """(B, n) numbers of the slots and which are taken, n the most entries that one row has in ``anchors``."""
    size = torch.bincount(anchors, minlength=rows)
    width = int(size.max()) if rows else 0
    slots = torch.arange(width, device=anchors.device).expand(rows, width)
    return slots, slots < size[:, None]
