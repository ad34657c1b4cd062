"""Vectors that are read in tiles and whose gradient gathers in one place.

A tile-wise loss reads the same vectors many times. If each reading were a node of the graph, each
would make a gradient of full size, and a million class vectors would cost their own size several
times over. Here all readers add into one buffer, and the vectors receive it once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

import torch
from torch import Tensor

from similis.objective.distances import widened
from similis.values import UserError

CHUNK = 2**20  # numbers worked on at a time where all vectors are gone through
KEPT = 2**23  # numbers: a normalised or sorted copy up to this size is kept, a larger one is made per tile
NOT_IN_TILES = "of a loss in tiles are not available; use `with similis.objective.tiling.dense():` around the loss"
Backward = Callable[..., tuple[Any, ...]]


def first_order(backward: Backward) -> Backward:
    """A backward pass of tiles: without second derivatives, and in full precision inside autocast.

    The tiles' gradient has no graph of its own; a wrong second derivative would be silent.
    """

    @wraps(backward)
    def call(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            raise UserError(f"second derivatives (create_graph=True) {NOT_IN_TILES}")
        with torch.autocast(next(g.device.type for g in gradients if g is not None), enabled=False):
            return backward(ctx, *gradients)

    return call


class Store:
    """Vectors (N, D) or (N, K, D), read in a fixed order and on the unit sphere if told so.

    Attributes:
        token: a scalar that stands for the vectors in the graph; every reader takes it as an input.
        order: position -> row of the vectors; None where they are read as they stand.
    """

    def __init__(self, vectors: Tensor, sphere: bool, order: Tensor | None = None) -> None:
        self.sphere = sphere
        self.order = order
        self.raw = vectors.detach()
        self.dtype = widened(self.raw[:0]).dtype
        self.gradient: Tensor | None = None
        self.factors: Tensor | None = None  # (N,): what each vector itself is to be added with
        self.pass_number = -1  # of the backward pass that the gradient belongs to
        self.kept = self._made(slice(None)) if self.raw.numel() <= KEPT else None
        try:
            self.token: Tensor = _Gate.apply(vectors, self)  # type: ignore[no-untyped-call]
        except RuntimeError as error:  # what a function transform says to a gradient that adds up in one place
            raise UserError(f"torch.func transforms {NOT_IN_TILES}") from error

    def __len__(self) -> int:
        return self.raw.shape[0]

    @property
    def wants_gradient(self) -> bool:
        """Whether the vectors are trained; a memory is not."""
        return self.token.requires_grad

    def tile(self, first: int, last: int) -> Tensor:
        """Vectors at positions first to last, without a graph."""
        return self._made(slice(first, last)) if self.kept is None else self.kept[first:last]

    def read(self, positions: Tensor) -> Tensor:
        """Vectors at positions (T,), without a graph."""
        if self.kept is not None:
            return self.kept[positions]
        return self._at(positions if self.order is None else self.order[positions])

    def rows(self, index: Tensor) -> Tensor:
        """Vectors by their own row numbers, any shape of index, with gradient into the store."""
        return _Read.apply(self.token, self, index)  # type: ignore[no-untyped-call,no-any-return]

    def add(self, first: int, last: int, factors: Tensor, others: Tensor) -> None:
        """Add ``factors @ others`` to the gradient of positions first to last, without a copy."""
        part = self.buffer()[first:last]
        part.view(len(factors), -1).addmm_(factors, others)

    @cached_property
    def squares(self) -> Tensor:
        """Squared norms of the vectors in the order in which they are read."""
        return self.of_chunks(lambda vectors: vectors.square().sum(-1), self.raw.shape[:-1])

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
        step = max(1, CHUNK // max(1, self.raw[:1].numel()))
        return [(first, min(first + step, len(self))) for first in range(0, max(len(self), 1), step)]

    @cached_property
    def places(self) -> Tensor | None:
        """Row of the vectors -> position; None where they are read as they stand."""
        return None if self.order is None else self.order.argsort()

    def add_scaled(self, first: int, last: int, factors: Tensor) -> None:
        """Add each vector times a factor (of its own squared norm) to its gradient; factors add up, for one product."""
        self.buffer()
        if self.factors is None:
            self.factors = torch.zeros(len(self), dtype=self.dtype, device=self.raw.device)
        self.factors[first:last] += factors

    def buffer(self) -> Tensor:
        """Where the readers of the current backward pass add up, in the order of reading."""
        now = torch._C._current_graph_task_id()
        if self.gradient is None or now != self.pass_number:  # a pass that asked for other leaves may have left some
            self.gradient = self.factors = None
            self.gradient = torch.zeros(self.raw.shape, dtype=self.dtype, device=self.raw.device)
            self.pass_number = now
        return self.gradient

    def _made(self, part: slice) -> Tensor:
        return self._at(part if self.order is None else self.order[part])

    def _at(self, index: Tensor | slice) -> Tensor:
        """Vectors at row numbers, on the sphere if told so."""
        vectors = self.raw[index].to(self.dtype)
        return vectors / norms_of(vectors).clamp(min=1e-12) if self.sphere else vectors

    def finished(self) -> Tensor | None:
        """The gathered gradient with respect to the raw vectors, in their order and type; then forgets it."""
        gradient, factors = self.gradient, self.factors
        self.gradient = self.factors = None
        if gradient is None:
            return None
        if factors is not None:
            for first, last in self.chunks():
                gradient[first:last].addcmul_(self.tile(first, last), factors[first:last, None])
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
        norms = norms_of(self.raw[index].to(self.dtype))
        radial = (part * vectors).sum(-1, keepdim=True)
        part.sub_(torch.where(norms > 1e-12, radial, 0.0) * vectors).div_(norms.clamp(min=1e-12))


class _Gate(torch.autograd.Function):
    """Vectors in, token out; on the way back the token's readers have filled the store."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, store: Store) -> Tensor:
        ctx.save_for_backward(vectors)  # an optimiser step before the backward pass is noticed
        ctx.store = store
        return torch.zeros((), dtype=store.dtype, device=vectors.device)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None]:  # noqa: ARG004
        (vectors,) = ctx.saved_tensors
        store: Store = taken(ctx, "store")
        gradient = store.finished()
        return (torch.zeros_like(vectors) if gradient is None else gradient), None


class _Read(torch.autograd.Function):
    """Single vectors by row number; their gradient is added to the store."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, store: Store, index: Tensor) -> Tensor:  # noqa: ARG004
        ctx.store, ctx.index = store, index
        vectors = store._at(index)
        return vectors.view_as(vectors)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        store, index = taken(ctx, "store"), ctx.index
        place = index.flatten() if store.places is None else store.places[index.flatten()]
        store.buffer().index_add_(0, place, gradients[0].reshape(-1, *store.raw.shape[1:]))
        return torch.zeros((), dtype=store.dtype, device=store.raw.device), None, None


class Owned(torch.autograd.Function):
    """A value of each vector for itself, a chunk at a time, made again on the way back."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, store: Store, fn: Callable[[Tensor], Tensor]) -> Tensor:  # noqa: ARG004
        """Values in the order of the store."""
        ctx.store, ctx.fn = store, fn
        return store.of_chunks(fn, store.raw.shape[:1])

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """The gradient of each chunk, added to the store."""
        store: Store = taken(ctx, "store")
        for first, last in store.chunks():
            vectors = store.tile(first, last).detach().requires_grad_()
            with torch.enable_grad():
                made = ctx.fn(vectors)
            (found,) = torch.autograd.grad(made, vectors, gradients[0][first:last])
            store.buffer()[first:last] += found
        return torch.zeros((), dtype=store.dtype, device=store.raw.device), None, None


def norms_of(vectors: Tensor) -> Tensor:
    """Norms, with their axis; made again where they are needed, for even one number each adds up over classes."""
    found: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return found


def taken(ctx: Any, name: str) -> Any:
    """What a node holds under that name; the node lets go of it unless the graph is kept, as of saved tensors."""
    held = getattr(ctx, name)
    if held is None:
        raise RuntimeError("the backward pass ran already; call it with retain_graph=True to run it twice")
    if not torch._C._autograd._get_current_graph_task_keep_graph():
        setattr(ctx, name, None)
    return held
