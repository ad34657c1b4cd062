"""Rows compared with references: the object that every loss is written against, and the ways to set it up.

A loss asks for reductions over a set of each row: ``p.pos`` (positives), ``p.neg`` (negatives),
``p.others`` (all but self), ``p.every``. It hands over a function of a tile that reads like dense
code (``t.s``, ``t.d2``, ``t.d``) and gets one value per row back. No loss knows about tiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from similis.objective.backends.dense import make_dense
from similis.objective.backends.dense_or_tiled import choose_tiling
from similis.objective.backends.protocol import Backend, Hinges, Operands
from similis.objective.backends.tiled.backend import make_tiled
from similis.objective.batch import check_labels, check_rows
from similis.objective.class_shards import class_shares, own_classes, reduce_across_ranks
from similis.objective.comparison.vectors import ComparedVectors
from similis.objective.context import Context, Partition, current_context
from similis.objective.host_copies import gather_integers, known_on_host
from similis.objective.references import Block, References, batch_references
from similis.objective.terms.distances import Geometry
from similis.objective.terms.reductions import DIRECT, Reduced, merge
from similis.objective.terms.tile import Ask, Set, TileFunction
from similis.sphere import full_precision, widen
from similis.values import Communicator, DivergedError, UserError

Values = Sequence[Tensor]


@dataclass(frozen=True)
class Comparison(ComparedVectors):
    """Rows (r, D) with labels, the references that they are compared with, and the back-end that compares them.

    With a ``communicator`` the rows are this rank's share of all rows, and sums run over all of them.
    """

    communicator: Communicator | None = None

    def pos(self, fn: TileFunction, rows: Values = (), cols: Values = (), dots: Values = ()) -> Any:
        """Reduce over the positives of each row, self left out."""
        return self.over("pos", fn, rows, cols, dots)

    def neg(self, fn: TileFunction, rows: Values = (), cols: Values = (), dots: Values = ()) -> Any:
        """Reduce over the negatives of each row."""
        return self.over("neg", fn, rows, cols, dots)

    def others(self, fn: TileFunction, rows: Values = (), cols: Values = (), dots: Values = ()) -> Any:
        """Reduce over all columns but the row itself."""
        return self.over("others", fn, rows, cols, dots)

    def every(self, fn: TileFunction, rows: Values = (), cols: Values = (), dots: Values = ()) -> Any:
        """Reduce over all columns, self included."""
        return self.over("every", fn, rows, cols, dots)

    def over(
        self,
        which: Set,
        fn: TileFunction,
        rows: Values = (),
        cols: Values = (),
        dots: Values = (),
    ) -> Any:
        """Reduce what ``fn(tile, *rows, *cols, *dots)`` returns over a set of columns.

        Args:
            which: the set of each row.
            fn: function of a tile; returns one term or a tuple of terms.
            rows: values of rows, (r,) or (r, m); arrive as (r, 1) or (r, 1, m).
            cols: values of columns, (M,); arrive as (1, M). One block of references only.
            dots: further row vectors (r, D) or (r, m, D); arrive as their products with the columns.

        Returns:
            One reduced value per term: (r,) or (r, m), or a :class:`~similis.objective.terms.reductions.Top`.
        """
        blocks, shards = self.references.blocks, self.column_shards
        if cols and len(blocks) > 1:
            raise UserError("this loss needs values of its references and cannot use a memory; drop the memory")
        if not blocks:
            raise UserError("there are no references to compare with; pass at least one block")
        ask = Ask(which, fn, rows, cols, dots)
        first = 0 if shards is None else shards.first
        with full_precision(self.vectors):
            kinds, result = self.backend.reduce(ask, 0, first)
            for number in range(1, len(blocks)):
                first += len(blocks[number - 1])
                more: list[Reduced] = self.backend.reduce(ask, number, first)[1]
                result = [merge(*parts) for parts in zip(kinds, result, more, strict=True)]
        if shards is not None:
            result = [reduce_across_ranks(kind, part, shards) for kind, part in zip(kinds, result, strict=True)]
        return result[0] if len(result) == 1 else tuple(result)

    def hinges(self, geometry: Geometry, margin: float) -> Hinges | None:
        """``[f_ap - f_an + margin]_+`` over all triplets of each anchor; None where it takes reductions.

        f is the distance in the geometry named. Time r M log n for M columns and n positives of a row beside the
        products where the back-end sorts them.
        """
        with full_precision(self.vectors):
            return self.backend.hinges(geometry, margin)

    def sum(self, values: Tensor) -> Tensor:
        """Sum over all rows, of all ranks."""
        local = values.sum()
        return local if self.communicator is None else self.communicator.sum(local)

    def mean(self, values: Tensor, where: Tensor | None = None) -> Tensor:
        """Mean over the rows for which ``where`` holds, an attached 0 if it holds for none."""
        counts = torch.ones_like(values, dtype=torch.bool) if where is None else where
        if where is not None:
            values = torch.where(where, values, 0.0)
        return self.ratio(values, counts)

    def column_mean(self, values: Tensor) -> Tensor:
        """Mean of values (M,) of all columns, over those of all ranks."""
        sums = torch.stack([values.sum(), torch.ones_like(values).sum()])
        total = sums if self.column_shards is None else self.column_shards.communicator.sum(sums)
        return total[0] / total[1]

    def ratio(self, values: Tensor, counts: Tensor) -> Tensor:
        """Sum of values over sum of counts; 0 if nothing was counted."""
        number = self.sum(counts)
        return self.sum(values) / (number + (number == 0))


def compare(embeddings: Tensor, labels: Tensor, references: References | None = None, *, sphere: bool) -> Comparison:
    """Samples against samples: the batch against itself, or against the references given.

    Args:
        embeddings: (B, D).
        labels: (B,) integers, or a relation (B, B).
        references: blocks to compare with; None for the batch alone.
        sphere: whether everything is put on the unit sphere first.
    """
    checked, context = check_labels(labels, len(embeddings)), current_context()
    if not sphere:
        check_lengths(embeddings)
    refs = batch_references(embeddings, checked) if references is None else references
    operands = Operands(embeddings, None if checked.ndim == 2 else checked, refs, sphere, sphere)
    return build_comparison(operands, context, communicator=context.communicator)


def compare_to_classes(embeddings: Tensor, labels: Tensor, proxies: Tensor, *, sphere: bool) -> Comparison:
    """Samples against proxies, (C, D) or (C, K, D); labels are row numbers of the proxies."""
    context = current_context()
    checked, shards = check_labels(labels, len(embeddings)), context.shards
    if checked.ndim == 2:
        raise UserError("a loss with one target class per sample takes labels, not a relation matrix")
    checked = check_rows(checked, len(proxies) if shards is None else shards.size)
    block = Block(match_precision(proxies, embeddings), class_numbers(proxies, shards))
    operands = Operands(embeddings, checked, References((block,)), sphere, sphere)
    return build_comparison(operands, context, communicator=context.communicator, shards=shards)


def compare_classes_to(
    proxies: Tensor, embeddings: Tensor, labels: Tensor, references: References | None = None
) -> Comparison:
    """Proxies as anchors (C, D), samples as references, on the unit sphere.

    Labels are row numbers of the proxies, or a relation (B, C) for several classes per sample. In a distributed
    context each rank takes its share of the classes and the samples of all.
    """
    context = current_context()
    shards, share = context.shards, None
    checked = check_rows(check_labels(labels, len(embeddings)), len(proxies) if shards is None else shards.size)
    if shards is not None or context.communicator is not None:
        share, proxies = class_shares(proxies), own_classes(proxies)
        batch = context.partition(len(embeddings)) if references is None or checked.ndim == 2 else None
        if batch is not None:
            embeddings, checked = batch.gather(embeddings), gather_integers(checked, batch)
    if checked.ndim == 2:
        relation = checked.T if share is None else checked.T[share.first : share.first + share.own]
        blocks: tuple[Block, ...] = (Block(embeddings, None, relation=relation),)
    elif references is None:
        blocks = (Block(embeddings, checked),)
    else:  # a class is no sample: nothing is masked as self
        blocks = tuple(Block(block.vectors, block.labels) for block in references)
    names = None if checked.ndim == 2 else class_numbers(proxies, share)
    operands = Operands(match_precision(proxies, embeddings), names, References(blocks), True, True)
    return build_comparison(operands, context, communicator=None if share is None else share.communicator)


def build_comparison(
    operands: Operands,
    context: Context,
    *,
    communicator: Communicator | None = None,
    shards: Partition | None = None,
) -> Comparison:
    """The comparison of these operands: dense, in tiles where a dense one would be large, or as the context says.

    Args:
        operands: what is compared.
        context: in which it is.
        communicator: the ranks over which the rows are spread.
        shards: how the columns are sharded over ranks.
    """
    vectors, labels, references, sphere, _ = operands
    size, depth = 0, 1
    for block in references.blocks:
        size, depth = size + block.vectors.shape[0], max(depth, block.vectors.shape[1:-1].numel())
    automatic = context.tiling == "auto"
    if automatic and vectors.is_cpu and len(vectors) * size * depth <= DIRECT:
        backend: Backend = make_dense(operands, make_tiled)
    else:
        tiling = choose_tiling(len(vectors), size, depth, vectors.device)
        in_tiles = tiling is not None and size and len(vectors)
        backend = make_tiled(operands, tiling) if in_tiles else make_dense(operands, make_tiled if automatic else None)
    return Comparison(vectors, labels, references, sphere, backend, shards, communicator)


def class_numbers(proxies: Tensor, share: Partition | None) -> Tensor:
    """Class numbers (C,) of proxies, which may be one rank's share of all; known on the host too."""
    first = 0 if share is None else share.first
    made = torch.arange(first, first + len(proxies), device=proxies.device)
    return made if made.is_cpu else known_on_host(made, torch.arange(first, first + len(made), device="cpu"))


def check_lengths(vectors: Tensor) -> None:
    """Raise where products of rows (r, D) would overflow; on a device, which is not waited for, they become NaN."""
    if torch.compiler.is_compiling() or not vectors.is_cpu or not vectors.numel():
        return
    kind = torch.finfo(widen(vectors[:0]).dtype)
    most = math.sqrt(kind.max / 8 / vectors.shape[1])
    try:
        largest = float(vectors.detach().abs().amax())
    except RuntimeError:  # torch.vmap knows no values
        return
    if most < largest < math.inf:
        raise DivergedError(
            f"a coordinate of the embeddings is {largest:.1e}, and their products in {kind.dtype} need {most:.0e} or "
            "less; lower the learning rate, or put the embeddings on the unit sphere (sphere=True)"
        )


def match_precision(proxies: Tensor, embeddings: Tensor) -> Tensor:
    """Proxies in the precision of the comparison; parameters themselves keep their type."""
    wide = torch.promote_types(embeddings.dtype, torch.float32)
    return proxies if torch.promote_types(proxies.dtype, torch.float32) == wide else proxies.to(wide)
