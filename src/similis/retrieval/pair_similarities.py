"""Similarities of genuine and impostor pairs: exact order statistics and counts of many pairs, tile by tile.

Nothing of the size of all pairs is kept. Similarities are cosines in float32. Read as integers in the order of the
numbers they are 32 bits: a histogram of the upper 18 bits and one of the lower 14, for the few upper parts in which a
wanted rank lies, give every order statistic exactly in two passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.labels import encode_labels
from similis.retrieval.embed import as_embedded
from similis.retrieval.similarity import as_gallery, similarities, tile_rows, to_comparable
from similis.values import Embedded, Pairs, UserError

PAIR_TILE = 2**21  # pairs compared at once
LOWER_BITS = 14
LOWER, UPPER = 2**LOWER_BITS, 2 ** (32 - LOWER_BITS)  # values of the two parts of a 32-bit number


class PairTile(NamedTuple):
    """Similarities of some pairs (n,), and the classes, 0 to K - 1, of their two ends (n,)."""

    similarity: Tensor
    first: Tensor
    second: Tensor


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """Pairs of vectors that are compared, each once, as tiles.

    Attributes:
        vectors: (N, D) comparable.
        classes: (N,) class of each, 0 to K - 1.
        names: (K,) the label of each class.
        groups: (N,) or None; two of one group (not negative) are not compared.
        listed: rows of the two ends of each pair (P, 2), or None for all pairs.
        tile: similarities held at once.
    """

    vectors: Tensor
    classes: Tensor
    names: Tensor
    groups: Tensor | None
    listed: Tensor | None
    tile: int

    def __iter__(self) -> Iterator[PairTile]:
        if self.listed is not None:
            for pair in torch.split(self.listed, tile_rows(self.vectors.shape[1], self.tile)):
                a, b = self.vectors[pair[:, 0]], self.vectors[pair[:, 1]]
                yield PairTile((a * b).sum(dim=1), *self.classes[pair].unbind(dim=1))
            return
        start = 0
        while start < len(self.vectors) - 1:
            stop = start + tile_rows(len(self.vectors) - start, self.tile)
            yield self._block(start, min(stop, len(self.vectors)))
            start = stop

    def _block(self, start: int, stop: int) -> PairTile:
        """Pairs of the rows from start to stop with all later rows."""
        found = similarities(self.vectors[start:stop], as_gallery(self.vectors[start:]))
        rows = torch.arange(stop - start, device=found.device)[:, None]
        compared = torch.arange(found.shape[1], device=found.device) > rows
        if self.groups is not None:
            own = self.groups[start:stop, None]
            compared &= (own != self.groups[start:]) | (own < 0)
        first, second = self.classes[start:stop, None].expand_as(found), self.classes[start:].expand_as(found)
        return PairTile(found[compared], first[compared], second[compared])


def labelled_pairs(
    embedded: Embedded, *, groups: Any = None, pairs: Pairs | None = None, tile: int = PAIR_TILE
) -> LabelledPairs:
    """All pairs of an embedding, or the listed ones, ready to be compared by cosine in float32.

    Args:
        embedded: vectors (N, D) and labels (N,); with ``pairs``, the labels say which class an end of a pair is of.
        groups: (N,) camera, session or photographer: two images of one group are not compared; a negative group is
            none.
        pairs: rows of genuine and impostor pairs; None for all pairs of different rows.
        tile: similarities held at once; memory is proportional to it.
    """
    embedded = as_embedded(embedded)
    groups = None if groups is None else encode_labels(groups)
    vectors = to_comparable(embedded.vectors.float())
    names, classes = torch.unique(embedded.labels.to(vectors.device), return_inverse=True)
    classes = classes.int()
    if groups is not None and (pairs is not None or len(groups) != len(vectors)):
        raise UserError(
            f"groups of length {len(groups)} given for {len(vectors)} vectors{' with listed pairs' if pairs else ''}; "
            "give one group a vector, and only where all pairs are compared"
        )
    listed = None
    if pairs is not None:
        ends = (torch.cat(pairs[::2]), torch.cat(pairs[1::2]))  # anchors, and what they are compared with
        listed = torch.stack(ends, dim=1).to(vectors.device)
        same = classes[listed[:, 0]] == classes[listed[:, 1]]
        wrong = same != (torch.arange(len(same), device=same.device) < len(pairs.positives))
        if wrong.any():
            raise UserError(
                f"{int(wrong.sum())} pairs contradict the labels of their rows, first rows "
                f"{listed[wrong][0].tolist()}; a genuine pair has one label, an impostor pair two"
            )
    return LabelledPairs(vectors, classes, names, None if groups is None else groups.to(vectors.device), listed, tile)


class Totals(NamedTuple):
    """Histograms (2, UPPER) of the upper parts of all keys: genuine pairs in row 0, impostors in row 1."""

    upper: Tensor

    @property
    def genuine(self) -> int:
        """Number of genuine pairs."""
        return int(self.upper[0].sum())

    @property
    def impostors(self) -> int:
        """Number of impostor pairs."""
        return int(self.upper[1].sum())


def count_upper(pairs: LabelledPairs) -> Totals:
    """One pass over all pairs; without genuine or without impostor pairs there is nothing to verify."""
    upper = torch.zeros(2 * UPPER, dtype=torch.long, device=pairs.vectors.device)
    for tile in pairs:
        upper += torch.bincount(_upper_cell(tile, order_key(tile.similarity)), minlength=2 * UPPER)
    totals = Totals(upper.view(2, UPPER))
    if not totals.genuine or not totals.impostors:
        raise UserError(
            f"{totals.genuine} genuine and {totals.impostors} impostor pairs given; verification "
            "needs both: two classes, one of them with two images that may be compared"
        )
    return totals


def thresholds_and_eer(pairs: LabelledPairs, totals: Totals, ranks: Tensor) -> tuple[Tensor, float, float]:
    r"""The lowest thresholds that accept at most so many impostors, and the equal error rate with its threshold.

    A pair is accepted where its similarity is at least the threshold. For r accepted impostors the threshold is the
    next float above the (r + 1)-th largest impostor. The equal error rate is
    :math:`\min_t \max(\mathrm{FAR}(t), \mathrm{FRR}(t))` over all thresholds.

    Args:
        pairs: to compare.
        totals: see :func:`count_upper`.
        ranks: (T,) impostors that may be accepted; where it is all of them the threshold is -2.
    """
    above = _at_least(totals.upper)  # (2, UPPER): pairs in this upper part or a larger one
    beyond = torch.cat([above[:, 1:], above.new_zeros(2, 1)], dim=1)  # pairs in larger upper parts only
    wanted = ranks.to(above.device)
    last = wanted.clamp(max=totals.impostors - 1)
    places = UPPER - 1 - torch.searchsorted(above[1].flip(0).contiguous(), last, right=True)
    missed = totals.genuine - above[0]
    crossing = (above[1] * totals.genuine > missed * totals.impostors).nonzero().max()  # FAR > FRR at its start
    prefixes = torch.unique(torch.cat([places, crossing[None]]))
    lower = _at_least(_count_lower(pairs, prefixes, crossing))  # (P + 1, LOWER), genuine pairs last
    row = torch.searchsorted(prefixes, places)
    within = (last - beyond[1, places])[:, None]
    steps = LOWER - 1 - torch.searchsorted(lower[row].flip(1).contiguous(), within, right=True)[:, 0]
    thresholds = key_value(((places - UPPER // 2) << LOWER_BITS) + steps + 1).double()
    thresholds[wanted >= totals.impostors] = -2.0
    own = lower[[int(torch.searchsorted(prefixes, crossing)), -1]]
    accepted = torch.cat([own, own.new_zeros(2, 1)], dim=1) + beyond[[1, 0], crossing][:, None]  # impostors, genuine
    errors = torch.maximum(accepted[0].double() / totals.impostors, 1 - accepted[1].double() / totals.genuine)
    best = int(errors.argmin())
    return thresholds, float(errors[best]), float(key_value(((crossing - UPPER // 2) << LOWER_BITS) + best))


def _count_lower(pairs: LabelledPairs, prefixes: Tensor, crossing: Tensor) -> Tensor:
    """Histograms (P + 1, LOWER) of lower parts: impostors with these upper parts (P,), genuine pairs with that one."""
    rows = torch.full((2, UPPER), -1, dtype=torch.int32, device=prefixes.device)
    rows[1, prefixes] = torch.arange(len(prefixes), dtype=torch.int32, device=prefixes.device)
    rows[0, crossing] = len(prefixes)
    lower = torch.zeros((len(prefixes) + 1) * LOWER, dtype=torch.long, device=prefixes.device)
    for tile in pairs:
        key = order_key(tile.similarity)
        row = rows.view(-1)[_upper_cell(tile, key)]
        kept = row >= 0
        lower += torch.bincount((row[kept] << LOWER_BITS) + (key[kept] & (LOWER - 1)), minlength=len(lower))
    return lower.view(-1, LOWER)


def _upper_cell(tile: PairTile, key: Tensor) -> Tensor:
    """Upper part of the keys (n,), int32; UPPER is added for impostors."""
    cell: Tensor = (key >> LOWER_BITS) + UPPER // 2 + UPPER * (tile.first != tile.second).int()
    return cell


def order_key(values: Tensor) -> Tensor:
    """Float32 values as integers, int32, in the same order; neighbouring floats differ by 1.

    Example:
        >>> order_key(torch.tensor([-1.0, -0.0, 0.0, 1.0])).tolist()
        [-1065353217, 0, 0, 1065353216]
    """
    bits = (values + 0.0).view(torch.int32)  # -0 becomes 0
    return _flip_negative(bits)


def key_value(keys: Tensor) -> Tensor:
    """The float32 values of keys."""
    return _flip_negative(keys.int()).view(torch.float32)


def _flip_negative(bits: Tensor) -> Tensor:
    """Integers whose lower 31 bits are inverted where the sign is set, which is its own inverse."""
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def _at_least(counts: Tensor) -> Tensor:
    """Sums of the last axis from each place to the end."""
    return counts.flip(-1).cumsum(-1).flip(-1)


def similarity_histogram(totals: Totals) -> tuple[Tensor, Tensor]:
    """Similarities that occur, to ten binary digits (M,), and how many genuine and impostor pairs have them (2, M)."""
    upper = totals.upper.sum(0).nonzero().flatten()
    middle = key_value(((upper - UPPER // 2) << LOWER_BITS) + LOWER // 2)
    return middle.double().cpu(), totals.upper[:, upper].cpu()
