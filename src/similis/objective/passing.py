"""Columns that stay with their processes and are passed round, one stretch at a time.

Each process has its own rows. Whoever reduces over the rows of all shows its rows stretch by stretch; all
processes meet each stretch with their own anchors and let it go. On the way back the stretches come
again, and what the processes add to a stretch's gradient is summed and goes to its owner. So no process
holds more rows of others than one stretch, and all of them must ask the same questions in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.objective.joining import Joint
from similis.objective.store import Store, first_order, taken


class Visit(Store):
    """A stretch of some process's rows while it is here; its gradient begins at nothing.

    Args:
        vectors: (n, D) as their owner reads them: widened, on the sphere if the comparison is.
        numbers: (n,) of the rows among those of all processes.
        trained: whether a gradient is wanted for them.
    """

    def __init__(self, vectors: Tensor, numbers: Tensor, trained: bool) -> None:
        super().__init__(vectors, sphere=False)
        self.kept = self.raw  # nothing is to be made of it, however large it is
        self.order = numbers
        self.trained = trained

    @property
    def wants_gradient(self) -> bool:
        """Whether their owner trains them."""
        return self.trained

    def finished(self) -> Tensor:
        """What this process adds to the gradient of the rows, as their owner reads them."""
        gradient = self.buffer()
        return gradient if self.factors is None else gradient.addcmul_(self.raw, self.factors[:, None])


class Stretch(NamedTuple):
    """Rows ``first`` to ``last`` of one process in its order of reading, and their place among all columns."""

    owner: int
    first: int
    last: int
    place: slice


class Passed:
    """The rows of all processes as columns: process after process, each in its order of reading.

    Args:
        own: the rows of this process, in the order of their labels.
        joint: how the rows are divided.
        labels: (B,) of all rows; None where every process reads its rows as they stand.
        size: rows of a stretch, the same in all processes.
    """

    def __init__(self, own: Store, joint: Joint, labels: Tensor | None, size: int) -> None:
        self.own = own
        self.joint = joint
        self.size = size
        self.order = order_of(joint, labels, own.raw.device)  # position -> number of the row among all

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

    def visits(self, back: bool = False) -> Iterator[tuple[Visit, slice]]:
        """Each stretch while it is here; with ``back``, what was added to its gradient then goes to its owner."""
        communicator, own = self.joint.communicator, self.own
        trained = back and own.wants_gradient
        for owner, first, last, place in self.stretches():
            mine = owner == communicator.rank
            shape = (last - first, *own.raw.shape[1:])
            shown = own.tile(first, last) if mine else own.raw.new_empty(shape, dtype=own.dtype)
            visit = Visit(communicator.broadcast(shown, owner), self.order[place], trained)
            yield visit, place
            if trained:
                added = communicator.reduce(visit.finished(), owner)
                if mine:
                    own.buffer()[first:last] += added

    def example(self) -> Visit:
        """A row that nobody sent, to see what a loss makes of a tile."""
        return Visit(self.own.raw.new_zeros((1, *self.own.raw.shape[1:]), dtype=self.own.dtype), self.order[:1], False)

    def rows(self, index: Tensor) -> Tensor:
        """Vectors by their numbers among all rows, any shape of index, with gradient to their owners."""
        found: Tensor = _Fetched.apply(self.own.token, self, index)  # type: ignore[no-untyped-call]
        return found

    def met(self, rows: Store, anchors: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Products of rows at positions ``anchors`` (T,) with the columns ``index`` (T,), and the columns' squares."""
        found: tuple[Tensor, Tensor] = _Met.apply(rows.token, self.own.token, rows, self, anchors, index)  # type: ignore[no-untyped-call]
        return found


def order_of(joint: Joint, labels: Tensor | None, device: torch.device) -> Tensor:
    """Position -> number of the row: within each process in the order of labels, as ``side_of`` has them."""
    if labels is None:
        return torch.arange(joint.size, device=device)
    begin, found = 0, []
    for part in torch.split(labels, list(joint.counts)):
        found.append(part.argsort(stable=True) + begin)
        begin += len(part)
    return torch.cat(found)


def hits(places: Tensor, place: slice) -> tuple[Tensor, Tensor]:
    """Which of the wanted positions (T,) lie in a stretch, and where in it."""
    found = ((places >= place.start) & (places < place.stop)).nonzero()[:, 0]
    return found, places[found] - place.start


class _Fetched(torch.autograd.Function):
    """Single vectors of all processes; their gradients go to the owners."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, passed: Passed, index: Tensor) -> Tensor:  # noqa: ARG004
        places = passed.places[index.flatten()]
        ctx.passed, ctx.places = passed, places
        out = passed.own.raw.new_empty((len(places), *passed.own.raw.shape[1:]), dtype=passed.own.dtype)
        for visit, place in passed.visits():
            which, inside = hits(places, place)
            out[which] = visit.raw[inside]
        return out.view(*index.shape, *out.shape[1:])

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        passed, places = taken(ctx, "passed"), ctx.places
        flat = gradients[0].reshape(len(places), *passed.own.raw.shape[1:])
        for visit, place in passed.visits(back=True):
            which, inside = hits(places, place)
            visit.buffer().index_add_(0, inside, flat[which])
        return torch.zeros((), dtype=passed.own.dtype, device=flat.device), None, None


class _Met(torch.autograd.Function):
    """Products of chosen pairs of rows and columns; no vectors of columns stay here."""

    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any,
        row_token: Tensor,  # noqa: ARG004  # the tokens tie the result to both in the graph
        column_token: Tensor,  # noqa: ARG004
        rows: Store,
        passed: Passed,
        anchors: Tensor,
        index: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.passed, ctx.rows, ctx.anchors, ctx.places = passed, rows, anchors, passed.places[index]
        similar, squares = (rows.raw.new_empty(len(anchors), dtype=rows.dtype) for _ in range(2))
        for visit, place in passed.visits():
            for which, inside in chunked(*hits(ctx.places, place), passed.size):
                vectors = visit.raw[inside]
                similar[which] = (rows.read(anchors[which]) * vectors).sum(-1)
                squares[which] = vectors.square().sum(-1)
        return similar, squares

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        passed, rows, anchors = taken(ctx, "passed"), taken(ctx, "rows"), ctx.anchors
        for visit, place in passed.visits(back=True):
            for which, inside in chunked(*hits(ctx.places, place), passed.size):
                slope, radial = (gradient[which, None] for gradient in gradients)
                vectors, own = visit.raw[inside], rows.read(anchors[which])
                if rows.wants_gradient:
                    rows.buffer().index_add_(0, anchors[which], slope * vectors)
                if visit.wants_gradient:
                    visit.buffer().index_add_(0, inside, (slope * own).addcmul_(2 * radial, vectors))
        token = torch.zeros((), dtype=rows.dtype, device=rows.raw.device)
        return token, token, None, None, None, None


def chunked(which: Tensor, inside: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs in pieces of that size, so that their vectors are not more than those of a stretch."""
    yield from zip(torch.split(which, size), torch.split(inside, size), strict=True)
