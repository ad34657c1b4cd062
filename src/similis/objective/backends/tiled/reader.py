"""Vectors that are read in tiles, and the buffer that gathers their gradient.

A tiled loss reads the same vectors many times. If each reading were a node of the graph with a gradient of
full size, a million proxies would cost their own size several times over. Here the readings of one
reader form a chain (see ``function``): a backward pass hands one buffer from the last to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from similis.sphere import norms, rescale, scaled_norms, widen
from similis.values import UserError

CHUNK, DEVICE_CHUNK = 2**18, 2**26  # numbers worked on at a time where all vectors are gone through
KEPT = 2**23  # numbers: a normalised or sorted copy up to this size is kept, a larger one is made per tile


class Link:
    """The end of a chain of readings: the token that the next reading takes as its input."""

    def __init__(self, token: Tensor) -> None:
        self.token = token


@dataclass(eq=False)
class TileReader:
    """Vectors (N, D) or (N, K, D), read without a graph, in a fixed order, on the unit sphere on demand.

    Attributes:
        raw: the vectors as they were given, detached.
        sphere: whether they are read on the unit sphere.
        order: position -> row of the vectors; None where they are read as they stand.
        trained: whether they get a gradient; a memory does not.
        kept: all vectors as they are read; None where each tile is made anew.
        link: the chain of readings; None in a backward pass, which adds to no chain.
    """

    raw: Tensor
    sphere: bool
    order: Tensor | None = None
    trained: bool = False
    kept: Tensor | None = None
    link: Link | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.raw.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """The type in which vectors are read: at least float32."""
        return widen(self.raw[:0]).dtype

    def tile(self, first: int, last: int) -> Tensor:
        """Vectors at positions first to last."""
        return self._made(slice(first, last)) if self.kept is None else self.kept[first:last]

    def at(self, index: Tensor | slice) -> Tensor:
        """Vectors at row numbers."""
        vectors = self.raw[index].to(self.dtype)
        if not self.sphere:
            return vectors
        scaled, _ = rescale(vectors)
        return scaled.div_(scaled_norms(scaled))

    def _made(self, part: slice) -> Tensor:
        return self.at(part if self.order is None else self.order[part])

    def keep(self) -> None:
        """Keep a copy of all vectors as they are read, if it is small."""
        if self.raw.numel() <= KEPT:
            self.kept = self._made(slice(None))

    @cached_property
    def squares(self) -> Tensor:
        """Squared norms of the vectors in the order of reading."""
        return self.of_chunks(lambda vectors: vectors.square().sum(-1), self.raw.shape[:-1])

    @cached_property
    def places(self) -> Tensor | None:
        """Row of the vectors -> position; None where they are read as they stand."""
        return None if self.order is None else self.order.argsort()

    def of_chunks(self, fn: Callable[[Tensor], Tensor], shape: torch.Size) -> Tensor:
        """What ``fn`` makes of all vectors, a chunk at a time, in the order of reading.

        The result has its place from the beginning: small results that stay between large ones that go
        would leave holes in the memory, hundreds of megabytes of them for a million classes.
        """
        out = torch.empty(shape, dtype=self.dtype, device=self.raw.device)
        for first, last in self.chunks():
            out[first:last] = fn(self.tile(first, last))
        return out

    def chunks(self) -> list[tuple[int, int]]:
        """Stretches of about ``CHUNK`` numbers, at least one."""
        step = max(1, (CHUNK if self.raw.is_cpu else DEVICE_CHUNK) // max(1, self.raw[:1].numel()))
        return [(first, min(first + step, len(self))) for first in range(0, max(len(self), 1), step)]

    def raw_gradient(self, gradient: Tensor) -> Tensor:
        """The gradient of the raw vectors, in their order and type, from that of what was read; in place."""
        if self.sphere:
            for first, last in self.chunks():
                self._leave_sphere(gradient, first, last)
        if self.order is not None:
            gradient = torch.empty_like(gradient).index_copy_(0, self.order, gradient)
        return gradient.to(self.raw.dtype)

    def _leave_sphere(self, gradient: Tensor, first: int, last: int) -> None:
        """In place: the gradient of x / |x| with respect to x is tangent, divided by the norm."""
        part, vectors = gradient[first:last], self.tile(first, last)
        index = slice(first, last) if self.order is None else self.order[first:last]
        radial = (part * vectors).sum(-1, keepdim=True)
        part.sub_(radial * vectors).div_(norms(self.raw[index]))  # made again: one number each adds up over classes


class GradientBuffer:
    """The gradient of what a reader read, in the order of reading: one backward pass adds to it in place."""

    def __init__(self, reader: TileReader, so_far: Tensor | None = None) -> None:
        self.reader = reader
        shape, device = reader.raw.shape, reader.raw.device
        self.tensor = torch.zeros(shape, dtype=reader.dtype, device=device) if so_far is None else so_far
        self.factors: Tensor | None = None  # (N,): what each vector itself is to be added with

    def add(self, first: int, last: int, factors: Tensor, others: Tensor) -> None:
        """Add ``factors @ others`` at positions first to last, without a copy."""
        self.tensor[first:last].view(len(factors), -1).addmm_(factors, others)

    def add_scaled(self, first: int, last: int, factors: Tensor) -> None:
        """Add each vector times a factor (of its own squared norm); factors add up, for one product."""
        if self.factors is None:
            self.factors = self.tensor.new_zeros(len(self.reader))
        self.factors[first:last] += factors

    def total(self) -> Tensor:
        """The gradient with everything that was added."""
        if self.factors is not None:
            for first, last in self.reader.chunks():
                part = self.tensor[first:last]
                part.addcmul_(self.reader.tile(first, last), self.factors[first:last, None])
            self.factors = None
        return self.tensor


class _Enter(torch.autograd.Function):
    """Vectors to the first token of a chain; its gradient is the buffer that the chain filled."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, reader: TileReader) -> Tensor:
        kept, order = reader.kept, reader.order
        ctx.save_for_backward(vectors, kept, order)  # an optimiser step before the backward pass is noticed
        ctx.sphere = reader.sphere
        ctx.set_materialize_grads(False)
        return empty_token(vectors, reader.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        vectors, kept, order = ctx.saved_tensors
        if gradients[0] is None:
            return None, None
        return TileReader(vectors.detach(), ctx.sphere, order, kept=kept).raw_gradient(gradients[0]), None


def read_in_tiles(vectors: Tensor, sphere: bool, order: Tensor | None = None) -> TileReader:
    """A reader of these vectors, whose gradient reaches them."""
    trained = vectors.requires_grad and torch.is_grad_enabled()
    reader = TileReader(vectors.detach(), sphere, order, trained)
    reader.keep()
    try:
        token: Tensor = _Enter.apply(vectors, reader)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise UserError(
            "torch.func transforms of a loss in tiles are not available; "
            "use `with similis.objective.context.dense():` around the loss"
        ) from error
    reader.link = Link(token)
    return reader


def empty_token(vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor of the shape of the vectors that takes no memory: its gradient is what it is there for."""
    return torch.zeros((), dtype=dtype, device=vectors.device).expand(vectors.shape)
