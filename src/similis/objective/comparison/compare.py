"""Ways to set up a comparison: samples with samples, with classes, classes with samples or classes."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from similis.objective.backends.base import Comparison
from similis.objective.backends.choice import choose_tiling
from similis.objective.backends.tiled.comparison import compare_in_tiles, replace_by_tiles
from similis.objective.context import Partition, current_context, spread_evenly
from similis.objective.host_copies import known_on_host, on_host
from similis.objective.terms.labels import check_labels, check_rows
from similis.objective.terms.references import Block, References, batch_references
from similis.sphere import unit, widen
from similis.values import DivergedError, UserError


def compare(embeddings: Tensor, labels: Tensor, references: References | None = None, *, sphere: bool) -> Comparison:
    """Samples against samples: the batch against itself, or against the references given.

    Args:
        embeddings: (B, D).
        labels: (B,) integers, or a relation (B, B).
        references: blocks to compare with; None for the batch alone.
        sphere: whether everything is put on the unit sphere first.
    """
    checked = check_labels(labels, len(embeddings))
    if not sphere:
        check_lengths(embeddings)
    refs = batch_references(embeddings, checked) if references is None else references
    p = build_comparison(embeddings, None if checked.ndim == 2 else checked, refs, sphere=sphere, normalise=sphere)
    return replace(p, communicator=current_context().communicator)


def compare_to_classes(embeddings: Tensor, labels: Tensor, proxies: Tensor, *, sphere: bool) -> Comparison:
    """Samples against proxies, (C, D) or (C, K, D); labels are row numbers of the proxies."""
    context = current_context()
    checked = check_labels(labels, len(embeddings))
    if checked.ndim == 2:
        raise UserError("a loss with one target class per sample takes labels, not a relation matrix")
    checked = check_rows(checked, count_classes(proxies))
    block = Block(match_precision(proxies, embeddings), class_numbers(proxies, context.shards))
    p = build_comparison(embeddings, checked, References((block,)), sphere=sphere, normalise=sphere)
    return replace(
        p, column_weights=context.class_weights, communicator=context.communicator, column_shards=context.shards
    )


def compare_classes_to(
    proxies: Tensor, embeddings: Tensor, labels: Tensor, references: References | None = None
) -> Comparison:
    """Proxies as anchors (C, D), samples as references, on the unit sphere.

    Labels are row numbers of the proxies, or a relation (B, C) for several classes per sample. In a distributed
    context each rank takes its share of the classes and the samples of all.
    """
    context = current_context()
    checked = check_rows(check_labels(labels, len(embeddings)), count_classes(proxies))
    share, weights = class_shares(proxies), context.class_weights
    proxies, weights = own_classes(proxies), None if weights is None else own_classes(weights)
    batch = context.partition(len(embeddings)) if references is None or checked.ndim == 2 else None
    if batch is not None:
        embeddings, checked = batch.gather(embeddings), batch.gather(checked)
    if checked.ndim == 2:
        relation = checked.T if share is None else checked.T[share.first : share.first + share.own]
        blocks: tuple[Block, ...] = (Block(embeddings, None, relation=relation),)
    elif references is None:
        blocks = (Block(embeddings, checked),)
    else:  # a class is no sample: nothing is masked as self
        blocks = tuple(Block(block.vectors, block.labels) for block in references)
    names = None if checked.ndim == 2 else class_numbers(proxies, share)
    p = build_comparison(match_precision(proxies, embeddings), names, References(blocks), sphere=True, normalise=True)
    return replace(p, row_weights=weights, communicator=None if share is None else share.communicator)


def compare_classes(rows: Tensor, columns: Tensor) -> Comparison:
    """Vectors of classes against vectors of classes, taken as they are: row c and column c are of one class.

    In a distributed context both are this rank's share; the columns are gathered.

    Args:
        rows: (C, D), or (C, K, D) for K rows of each class.
        columns: (C, D).
    """
    context = current_context()
    share = context.partition(len(columns)) if context.shards is None else context.shards
    names = class_numbers(rows, share)
    if rows.ndim == 3:
        rows, names = rows.flatten(0, 1), repeat_names(names, rows.shape[1])
    every = columns if share is None else share.gather(columns)
    block = Block(every, count_up(0, len(every), every.device))
    p = build_comparison(rows, names, References((block,)), sphere=True, normalise=False)
    return replace(p, communicator=None if share is None else share.communicator)


def repeat_names(names: Tensor, times: int) -> Tensor:
    """Each name so many times in a row, on the host too."""
    made = names.repeat_interleave(times)
    return made if made.is_cpu else known_on_host(made, on_host(names).repeat_interleave(times))


def count_classes(proxies: Tensor) -> int:
    """Number of classes, those of other ranks included."""
    shards = current_context().shards
    return len(proxies) if shards is None else shards.size


def has_whole_batch() -> bool:
    """Whether a batch of labels is all there is, and a formula may look at it: no other ranks, no compiled graph."""
    return current_context().communicator is None and not torch.compiler.is_compiling()


def class_shares(proxies: Tensor) -> Partition | None:
    """How classes are shared out as anchors: as they are sharded, or evenly where every rank has all; None alone."""
    context = current_context()
    if context.shards is not None or context.communicator is None:
        return context.shards
    return Partition(context.communicator, spread_evenly(len(proxies), context.communicator.world))


def own_classes(values: Tensor) -> Tensor:
    """Values of classes (C, ...): those that are anchors on this rank."""
    share = class_shares(values)
    if share is None or current_context().shards is not None:
        return values
    return values[share.first : share.first + share.own]


def class_numbers(proxies: Tensor, share: Partition | None) -> Tensor:
    """Class numbers (C,) of proxies, which may be one rank's share of all."""
    first = 0 if share is None else share.first
    return count_up(first, len(proxies), proxies.device)


def count_up(first: int, number: int, device: torch.device) -> Tensor:
    """Whole numbers (number,) from ``first`` on, known on the host too."""
    made = torch.arange(first, first + number, device=device)
    return made if made.is_cpu else known_on_host(made, torch.arange(first, first + number, device="cpu"))


def build_comparison(
    vectors: Tensor, row_labels: Tensor | None, references: References, *, sphere: bool, normalise: bool
) -> Comparison:
    """A dense comparison, or one in tiles where a dense one would be large (see ``tiling``).

    Args:
        vectors: rows (r, D) as given.
        row_labels: their labels; None with a relation.
        references: blocks as given.
        sphere: squared norms are 1: distances follow from similarities alone.
        normalise: put everything on the unit sphere.
    """
    depth = max([1, *(block.vectors.shape[1] for block in references.blocks if block.vectors.ndim == 3)])
    tiling = choose_tiling(len(vectors), len(references), depth, vectors.device)
    if tiling is not None and len(vectors) and len(references):
        return compare_in_tiles(vectors, row_labels, references, sphere=sphere, normalise=normalise, tiling=tiling)
    wide = unit if normalise else widen
    rows = wide(vectors)
    blocks = references.each(lambda each: rows if each is vectors else wide(each))
    context = current_context()
    roomy = vectors.is_cpu or context.tiling != "auto"  # the host chose by size already; who asks for dense gets it
    in_tiles = None if roomy else replace_by_tiles
    return Comparison(rows, row_labels, blocks, sphere, context=context, in_tiles=in_tiles)


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
    """Class vectors in the precision of the comparison; parameters themselves keep their type."""
    wide = widen(embeddings[:0]).dtype
    return proxies if widen(proxies[:0]).dtype == wide else proxies.to(wide)
