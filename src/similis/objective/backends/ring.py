"""Columns that stay with their processes and are passed round, one stretch at a time.

Each process has its own rows. Whoever reduces over the rows of all shows its rows stretch by stretch; all
processes meet each stretch with their own anchors and let it go. On the way back the stretches come
again, and what the processes add to a stretch's gradient is summed and goes to its owner. So no process
holds more rows of others than one stretch, and all of them must ask the same questions in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.backends.tiled.function import Computed, Gradients, Outer, run_tiled
from similis.objective.backends.tiled.reader import GradientBuffer, TileReader
from similis.objective.context import Partition


class Stretch(NamedTuple):
    """Rows ``first`` to ``last`` of one process in its order of reading, and their place among all columns."""

    owner: int
    first: int
    last: int
    place: slice


@dataclass(eq=False)
class RemoteColumns:
    """The rows of all processes as columns: process after process, each in its order of reading.

    Attributes:
        own: the rows of this process, in the order of their labels.
        joint: how the rows are divided.
        order: position -> number of the row among all.
        size: rows of a stretch, the same in all processes.
    """

    own: TileReader
    joint: Partition
    order: Tensor
    size: int

    @cached_property
    def places(self) -> Tensor:
        """Number of a row among all -> position."""
        return self.order.argsort()

    def stretches(self) -> Iterator[Stretch]:
        """All stretches in the order in which they are shown."""
        begin = 0
        for owner, count in enumerate(self.joint.counts):
            for first in range(0, count, self.size):
                last = min(first + self.size, count)
                yield Stretch(owner, first, last, slice(begin + first, begin + last))
            begin += count

    def visits(self, own: GradientBuffer | None = None) -> Iterator[tuple[TileReader, slice, GradientBuffer | None]]:
        """Each stretch while it is here; with a buffer of the own rows, what a stretch gathers goes to its owner."""
        communicator, reader = self.joint.communicator, self.own
        for owner, first, last, place in self.stretches():
            mine = owner == communicator.rank
            shape = (last - first, *reader.raw.shape[1:])
            shown = reader.tile(first, last) if mine else reader.raw.new_empty(shape, dtype=reader.dtype)
            visit = self.visit(communicator.broadcast(shown, owner), place)
            buffer = None if own is None else GradientBuffer(visit)
            yield visit, place, buffer
            if own is not None and buffer is not None:
                added = communicator.reduce(buffer.total(), owner)
                if mine:
                    own.tensor[first:last] += added

    def visit(self, vectors: Tensor, place: slice) -> TileReader:
        """A stretch of some process's rows, widened and on the sphere if the comparison is, while it is here."""
        return TileReader(vectors, False, self.order[place], self.own.trained, kept=vectors)

    def example(self) -> TileReader:
        """A row that nobody sent, to see what a loss makes of a tile."""
        return self.visit(self.own.raw.new_zeros((1, *self.own.raw.shape[1:]), dtype=self.own.dtype), slice(0, 1))

    def rows(self, index: Tensor) -> Tensor:
        """Vectors by their numbers among all rows, any shape of index, with gradient to their owners."""
        (found,) = run_tiled(RemoteRows(self, index))
        return found

    def met(self, rows: TileReader, anchors: Tensor, index: Tensor) -> list[Tensor]:
        """Products of rows at positions ``anchors`` (T,) with the columns ``index`` (T,), and the columns' squares."""
        return run_tiled(RemotePairs(self, rows, anchors, self.places[index]))


def reading_order(joint: Partition, labels: Tensor | None, device: torch.device) -> Tensor:
    """Position -> number of the row: within each process in the order of labels, as ``side_of`` has them."""
    if labels is None:
        return torch.arange(joint.size, device=device)
    begin, found = 0, []
    for part in torch.split(labels, list(joint.counts)):
        found.append(part.argsort(stable=True) + begin)
        begin += len(part)
    return torch.cat(found)


def find_in_stretch(places: Tensor, place: slice) -> tuple[Tensor, Tensor]:
    """Which of the wanted positions (T,) lie in a stretch, and where in it."""
    found = ((places >= place.start) & (places < place.stop)).nonzero()[:, 0]
    return found, places[found] - place.start


@dataclass(frozen=True)
class RemoteRows:
    """Single vectors of all processes by number; their gradients go to the owners."""

    passed: RemoteColumns
    index: Tensor

    def readers(self) -> list[TileReader]:
        """The own rows: the others have their owners."""
        return [self.passed.own]

    def compute(self, values: Sequence[Tensor]) -> Computed:  # noqa: ARG002
        """Take each vector while its stretch is here."""
        own, places = self.passed.own, self.passed.places[self.index.flatten()]
        out = own.raw.new_empty((len(places), *own.raw.shape[1:]), dtype=own.dtype)
        for visit, place, _ in self.passed.visits():
            which, inside = find_in_stretch(places, place)
            out[which] = visit.raw[inside]
        return Computed([out.view(*self.index.shape, *out.shape[1:])])

    def backpropagate(self, outer: Outer) -> Gradients:
        """Each gradient to the owner of its vector."""
        (gradient,) = outer.gradients
        assert gradient is not None
        places = self.passed.places[self.index.flatten()]
        flat = gradient.reshape(len(places), *self.passed.own.raw.shape[1:])
        for _, place, buffer in self.passed.visits(outer.buffers.of(self.passed.own)):
            which, inside = find_in_stretch(places, place)
            if buffer is not None:
                buffer.tensor.index_add_(0, inside, flat[which])
        return []


@dataclass(frozen=True)
class RemotePairs:
    """Products of chosen pairs of rows and columns, and the columns' squared norms; no column stays here.

    Attributes:
        passed: the columns.
        rows: the rows.
        anchors: (T,) positions of the rows.
        places: (T,) positions of the columns.
    """

    passed: RemoteColumns
    rows: TileReader
    anchors: Tensor
    places: Tensor

    def readers(self) -> list[TileReader]:
        """Rows and own columns."""
        return [self.rows, self.passed.own]

    def compute(self, values: Sequence[Tensor]) -> Computed:  # noqa: ARG002
        """Meet each column while its stretch is here."""
        similar, squares = (self.rows.raw.new_empty(len(self.anchors), dtype=self.rows.dtype) for _ in range(2))
        for visit, place, _ in self.passed.visits():
            for which, inside in split_pairs(*find_in_stretch(self.places, place), self.passed.size):
                vectors = visit.raw[inside]
                similar[which] = (self.rows.read(self.anchors[which]) * vectors).sum(-1)
                squares[which] = vectors.square().sum(-1)
        return Computed([similar, squares])

    def backpropagate(self, outer: Outer) -> Gradients:
        """To the rows here, to the columns at their owners."""
        slopes = [torch.zeros_like(self.places, dtype=self.rows.dtype) if g is None else g for g in outer.gradients]
        mine = outer.buffers.of(self.rows)
        for visit, place, buffer in self.passed.visits(outer.buffers.of(self.passed.own)):
            for which, inside in split_pairs(*find_in_stretch(self.places, place), self.passed.size):
                slope, radial = (gradient[which, None] for gradient in slopes)
                vectors, own = visit.raw[inside], self.rows.read(self.anchors[which])
                if mine is not None:
                    mine.tensor.index_add_(0, self.anchors[which], slope * vectors)
                if buffer is not None:
                    buffer.tensor.index_add_(0, inside, (slope * own).addcmul_(2 * radial, vectors))
        return []


def split_pairs(which: Tensor, inside: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs in pieces of that size, so that their vectors are not more than those of a stretch."""
    yield from zip(torch.split(which, size), torch.split(inside, size), strict=True)
