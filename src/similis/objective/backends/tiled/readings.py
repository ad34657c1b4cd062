"""Steps that read single vectors: rows by number, and a value of each vector for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from similis.objective.backends.tiled.function import Computed, Gradients, Outer
from similis.objective.backends.tiled.reader import TileReader


@dataclass(frozen=True)
class Rows:
    """Vectors by their own row numbers, any shape of index."""

    reader: TileReader
    index: Tensor

    def readers(self) -> list[TileReader]:
        """The one."""
        return [self.reader]

    def compute(self, values: Sequence[Tensor]) -> Computed:  # noqa: ARG002
        """The vectors."""
        return Computed([self.reader.at(self.index)])

    def backpropagate(self, outer: Outer) -> Gradients:
        """Add the gradient of each."""
        (gradient,), buffer = outer.gradients, outer.buffers.get(self.reader)
        assert gradient is not None
        assert buffer is not None
        place = self.index.flatten() if self.reader.places is None else self.reader.places[self.index.flatten()]
        buffer.tensor.index_add_(0, place, gradient.reshape(-1, *self.reader.raw.shape[1:]))
        return []


@dataclass(frozen=True)
class ValuesOfVectors:
    """``fn`` of vectors (c, D) or (c, K, D) gives (c,): in the order of reading, a chunk at a time."""

    reader: TileReader
    fn: Callable[[Tensor], Tensor]

    def readers(self) -> list[TileReader]:
        """The one."""
        return [self.reader]

    def compute(self, values: Sequence[Tensor]) -> Computed:  # noqa: ARG002
        """The values."""
        return Computed([self.reader.of_chunks(self.fn, self.reader.raw.shape[:1])])

    def backpropagate(self, outer: Outer) -> Gradients:
        """Make each chunk again."""
        (gradient,), buffer = outer.gradients, outer.buffers.get(self.reader)
        assert gradient is not None
        assert buffer is not None
        for first, last in self.reader.chunks():
            vectors = self.reader.tile(first, last).detach().requires_grad_()
            with torch.enable_grad():
                made = self.fn(vectors)
            (found,) = torch.autograd.grad(made, vectors, gradient[first:last])
            buffer.tensor[first:last] += found
        return []
