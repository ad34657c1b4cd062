"""Inner products of listed pairs of vectors, in memory that follows the number of pairs and not pairs times D.

Gathering both vectors of every pair would hold T x D numbers several times over: 11 GB for the triplets of
a batch of 1,200. Where the pairs are a good part of the matrix, the matrix is made and read; where they are
few, their vectors are gathered a chunk at a time, and again on the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from similis.objective.terms.distances import Similarities, products, squares
from similis.objective.terms.gradients import with_signature

CHUNK, DEVICE_CHUNK = 2**20, 2**26  # numbers gathered at a time
ENTRIES = 16  # of the matrix for each pair: up to so many, the matrix measured faster than the gathering


def pair_products(rows: Tensor, columns: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Product of row ``first[t]`` with column ``second[t]``.

    Args:
        rows: (r, D).
        columns: (M, D).
        first: (T,) row numbers.
        second: (T,) column numbers.

    Shapes: -> (T,). Memory: T + (r + M) D, forward and backward, and derivatives of any order.
    """
    if torch.compiler.is_compiling():  # the compiler fuses the gathering with the product
        return (rows[first] * columns[second]).sum(-1)
    if len(rows) * len(columns) <= ENTRIES * len(first):
        return products(rows, columns)[first, second]
    found: Tensor = PairProducts.apply(rows, columns, first, second)  # type: ignore[no-untyped-call]
    return found


def row_of_each(index: Tensor, anchors: Tensor | None) -> Tensor:
    """The row number of each column number in ``index``, (r, ...) or, with ``anchors``, (T,)."""
    row = torch.arange(len(index), device=index.device) if anchors is None else anchors
    return row.view(-1, *[1] * (index.ndim - 1)).expand_as(index)


def similarities_at(
    rows: Tensor, columns: Tensor, index: Tensor, sphere: bool, anchors: Tensor | None = None
) -> Similarities:
    """Similarities of rows (r, D) with their columns ``index``, or of row ``anchors[t]`` with column ``index[t]``."""
    row, norms = row_of_each(index, anchors), None
    if not sphere and torch.compiler.is_compiling() and anchors is None:
        # a plain index adds its gradients by atomics, on which Inductor fails with two threads or more
        norms = squares(rows)[:, None] + squares(columns).expand(len(index), -1).take_along_dim(index, 1)
    elif not sphere:
        norms = squares(rows)[row] + squares(columns)[index]
    return Similarities(pair_products(rows, columns, row.flatten(), index.flatten()).view_as(index), norms)


def split_pairs(vectors: Tensor, *each: Tensor) -> list[tuple[Tensor, ...]]:
    """Values of the pairs in chunks, each of about ``CHUNK`` numbers or of as many as all vectors have."""
    size = max(1, len(vectors), (CHUNK if vectors.is_cpu else DEVICE_CHUNK) // max(1, vectors.shape[-1]))
    return list(zip(*(torch.split(values, size) for values in each), strict=True))


class PairProducts(torch.autograd.Function):
    """Products of pairs; its gradient is :class:`SumOfPairs`, whose gradients are both again."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(rows: Tensor, columns: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """(r, D), (M, D), (T,), (T,) -> (T,)."""
        parts = split_pairs(rows, first, second)
        return torch.cat([(rows.index_select(0, i) * columns.index_select(0, j)).sum(-1) for i, j in parts])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        """Keep what was given; no vectors of pairs."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Each vector gets its partners, weighted by the gradients of their products."""
        rows, columns, first, second = ctx.saved_tensors
        of_rows, of_columns = ctx.needs_input_grad[:2]
        return (
            SumOfPairs.apply(gradients[0], columns, first, second, len(rows)) if of_rows else None,  # type: ignore[no-untyped-call]
            SumOfPairs.apply(gradients[0], rows, second, first, len(columns)) if of_columns else None,  # type: ignore[no-untyped-call]
            None,
            None,
        )


class SumOfPairs(torch.autograd.Function):
    """Row i of the result: the sum over the pairs t with target i of ``weights[t] * vectors[source[t]]``."""

    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(weights: Tensor, vectors: Tensor, target: Tensor, source: Tensor, size: int) -> Tensor:
        """(T,), (M, D), (T,), (T,) -> (size, D)."""
        found = vectors.new_zeros(size, vectors.shape[-1])
        for weight, i, j in split_pairs(found, weights, target, source):
            found = found.index_add(0, i, weight[:, None] * vectors.index_select(0, j))
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        """Keep what was given; no vectors of pairs."""
        ctx.save_for_backward(*inputs[:4])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The sum is linear in both: products for the weights, a sum the other way round for the vectors."""
        weights, vectors, target, source = ctx.saved_tensors
        of_weights, of_vectors = ctx.needs_input_grad[:2]
        return (
            PairProducts.apply(gradients[0], vectors, target, source) if of_weights else None,  # type: ignore[no-untyped-call]
            SumOfPairs.apply(weights, gradients[0], source, target, len(vectors)) if of_vectors else None,  # type: ignore[no-untyped-call]
            None,
            None,
            None,
        )
