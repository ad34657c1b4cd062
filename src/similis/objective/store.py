"""Vectors that are read in tiles and whose gradient gathers in one place.

A tile-wise loss reads the same vectors many times. If each reading were a node of the graph, each
would make a gradient of full size, and a million class vectors would cost their own size several
times over. Here all readers add into one buffer, and the vectors receive it once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from similis.objective.distances import widened
from similis.values import UserError

KEPT = 2**25  # numbers: a normalised or sorted copy up to this size is kept, a larger one is made per tile


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
        self.norms = None
        if sphere:
            self.norms = torch.linalg.vector_norm(self.raw, dim=-1, keepdim=True, dtype=self.dtype)
        self.kept = self._made(slice(None)) if self.raw.numel() <= KEPT else None
        self.token: Tensor = _Gate.apply(vectors, self)  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return self.raw.shape[0]

    @property
    def wants_gradient(self) -> bool:
        """Whether the vectors are trained; a memory is not."""
        return self.token.requires_grad

    def tile(self, first: int, last: int) -> Tensor:
        """Vectors at positions first to last, without a graph."""
        return self._made(slice(first, last)) if self.kept is None else self.kept[first:last]

    def rows(self, index: Tensor) -> Tensor:
        """Vectors by their own row numbers, any shape of index, with gradient into the store."""
        return _Read.apply(self.token, self, index)  # type: ignore[no-untyped-call,no-any-return]

    def add(self, first: int, last: int, factors: Tensor, others: Tensor) -> None:
        """Add ``factors @ others`` to the gradient of positions first to last, without a copy."""
        part = self._buffer()[first:last]
        part.view(len(factors), -1).addmm_(factors, others)

    def add_scaled(self, first: int, last: int, factors: Tensor) -> None:
        """Add each vector times a factor (of its own squared norm) to its gradient."""
        shape = [len(factors)] + [1] * (self.raw.ndim - 1)
        self._buffer()[first:last].addcmul_(self.tile(first, last), factors.view(shape))

    def _buffer(self) -> Tensor:
        if self.gradient is None:
            self.gradient = torch.zeros(self.raw.shape, dtype=self.dtype, device=self.raw.device)
        return self.gradient

    def _made(self, part: slice) -> Tensor:
        index = part if self.order is None else self.order[part]
        vectors = self.raw[index].to(self.dtype)
        return vectors if self.norms is None else vectors / self.norms[index].clamp(min=1e-12)

    def finished(self) -> Tensor | None:
        """The gathered gradient with respect to the raw vectors, in their order and type; then forgets it."""
        gradient, self.gradient = self.gradient, None
        if gradient is None:
            return None
        if self.norms is not None:
            step = max(1, 2**20 // max(1, gradient[0].numel())) if len(gradient) else 1
            for first in range(0, len(gradient), step):
                self._leave_sphere(gradient, first, min(first + step, len(gradient)))
        if self.order is not None:
            gradient = torch.empty_like(gradient).index_copy_(0, self.order, gradient)
        return gradient.to(self.raw.dtype)

    def _leave_sphere(self, gradient: Tensor, first: int, last: int) -> None:
        """In place: the gradient of x / |x| with respect to x is tangent, divided by the norm."""
        if self.norms is None:
            return
        part, vectors = gradient[first:last], self.tile(first, last)
        index = slice(first, last) if self.order is None else self.order[first:last]
        norms = self.norms[index]
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
        gradient = ctx.store.finished()
        return (torch.zeros_like(vectors) if gradient is None else gradient), None


class _Read(torch.autograd.Function):
    """Single vectors by row number; their gradient is added to the store."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, store: Store, index: Tensor) -> Tensor:  # noqa: ARG004
        ctx.store, ctx.index = store, index
        vectors = store.raw[index].to(store.dtype)
        if store.norms is not None:
            vectors = vectors / store.norms[index].clamp(min=1e-12)
        return vectors.view_as(vectors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        refuse_second_derivative()
        store, index = ctx.store, ctx.index
        place = index.flatten()
        if store.order is not None:
            inverse = torch.empty_like(store.order)
            inverse[store.order] = torch.arange(len(store), device=inverse.device)
            place = inverse[place]
        store._buffer().index_add_(0, place, gradients[0].reshape(-1, *store.raw.shape[1:]))
        return torch.zeros((), dtype=store.dtype, device=store.raw.device), None, None


def refuse_second_derivative() -> None:
    """The tiles' gradient has no graph of its own; a wrong second derivative would be silent."""
    if torch.is_grad_enabled():
        raise UserError(
            "second derivatives (create_graph=True) of a loss that is computed in tiles are not available; "
            "use `with similis.objective.tiling.dense():` around the loss"
        )
