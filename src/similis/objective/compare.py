"""Ways to set up a comparison: samples with samples, with classes, classes with samples or classes."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from similis.objective.comparison import Comparison
from similis.objective.joining import (
    Joint,
    classes_here,
    communicator_here,
    joint_of,
    number_of_classes,
    passed_round,
    refuse_passing,
    shares,
)
from similis.objective.references import Block, References, batch_references
from similis.objective.tiled import tiled
from similis.objective.tiling import tiling_of, tiling_of_passed
from similis.objective.weights import class_weights_here
from similis.sphere import unit, widened
from similis.values import Communicator, UserError

PASSED_DENSE = (
    "a miner, and dense(), need a matrix of the rows of all processes; use joined(communicator) without streamed=True"
)


def checked_labels(labels: Tensor, rows: int, what: str = "embeddings") -> Tensor:
    """Labels as int64 in memory of their own, or a relation as it is; anything else is refused."""
    if labels.ndim == 2:
        if labels.shape[0] != rows:
            raise UserError(f"the relation has {labels.shape[0]} rows for {rows} {what}; pass one row for each")
        return labels
    if labels.ndim != 1 or len(labels) != rows:
        raise UserError(f"labels have shape {tuple(labels.shape)} for {rows} {what}; pass one integer for each")
    if labels.is_floating_point() or labels.is_complex():
        raise UserError(f"labels are {labels.dtype}; class ids are integers (labels.long())")
    return labels.to(torch.int64, copy=True)  # the caller may fill the same buffer again before the backward pass


def compare(embeddings: Tensor, labels: Tensor, references: References | None = None, *, sphere: bool) -> Comparison:
    """Samples against samples: the batch against itself, or against the references given.

    Args:
        embeddings: (B, D).
        labels: (B,) integers, or a relation (B, B).
        references: blocks to compare with; None for the batch alone.
        sphere: whether everything is put on the unit sphere first.
    """
    checked = checked_labels(labels, len(embeddings))
    refs = batch_references(embeddings, checked) if references is None else references
    p = built(embeddings, None if checked.ndim == 2 else checked, refs, sphere=sphere, normalise=sphere)
    return shared(p, communicator_here())


def compare_to_classes(embeddings: Tensor, labels: Tensor, proxies: Tensor, *, sphere: bool) -> Comparison:
    """Samples against class vectors, (C, D) or (C, K, D); labels are row numbers of the proxies."""
    checked = known_rows(checked_labels(labels, len(embeddings)), number_of_classes(proxies))
    if checked.ndim == 2:
        raise UserError("a loss with one target class per sample takes labels, not a relation matrix")
    if classes_here() is not None:
        refuse_passing("a loss whose anchors are samples compares divided class vectors with")
    block = Block(matching(proxies, embeddings), names_of(proxies, classes_here()))
    p = built(embeddings, checked, References((block,)), sphere=sphere, normalise=sphere)
    return shared(replace(p, column_weights=class_weights_here()), communicator_here(), classes_here())


def compare_classes_to(
    proxies: Tensor, embeddings: Tensor, labels: Tensor, references: References | None = None
) -> Comparison:
    """Class vectors as anchors (C, D), samples as references, on the unit sphere.

    Labels are row numbers of the proxies, or a relation (B, C) for several classes per sample. Among
    several processes each takes its share of the classes and the samples of all.
    """
    checked = known_rows(checked_labels(labels, len(embeddings)), number_of_classes(proxies))
    share = classes_here()
    if share is None and (others := communicator_here()) is not None:
        share = Joint(others, shares(len(proxies), others.world))
        proxies = proxies[share.first : share.first + share.own]
    joint = joint_of(len(embeddings)) if references is None or checked.ndim == 2 else None
    spread = joint if passed_round() else None
    if joint is not None:
        embeddings, checked = embeddings if spread else joint.gather(embeddings), joint.gather(checked)
    if checked.ndim == 2:
        relation = checked.T if share is None else checked.T[share.first : share.first + share.own]
        blocks: tuple[Block, ...] = (Block(embeddings, None, relation=relation, spread=spread),)
    elif references is None:
        blocks = (Block(embeddings, checked, spread=spread),)
    else:  # a class is no sample: nothing is masked as self
        blocks = tuple(Block(block.vectors, block.labels, spread=block.spread) for block in references)
    names = None if checked.ndim == 2 else names_of(proxies, share)
    p = built(matching(proxies, embeddings), names, References(blocks), sphere=True, normalise=True)
    weights = class_weights_here()
    if weights is not None and share is not None and classes_here() is None:  # of classes that all processes have
        weights = weights[share.first : share.first + share.own]
    return shared(replace(p, row_weights=weights), None if share is None else share.communicator)


def compare_classes(rows: Tensor, columns: Tensor) -> Comparison:
    """Class vectors against class vectors, taken as they are: row c and column c are the same class.

    Among several processes both are this one's share; the columns are gathered.
    """
    share = classes_here()
    if share is None:
        share = joint_of(len(columns))
    names = names_of(rows, share)
    every = columns if share is None else share.gather(columns)
    block = Block(every, torch.arange(len(every), device=every.device))
    p = built(rows, names, References((block,)), sphere=True, normalise=False)
    return shared(p, None if share is None else share.communicator)


def shared(p: Comparison, communicator: Communicator | None, divided: Joint | None = None) -> Comparison:
    """The comparison with its rows, or its columns, divided over processes."""
    return p if communicator is None and divided is None else replace(p, communicator=communicator, divided=divided)


def names_of(proxies: Tensor, share: Joint | None) -> Tensor:
    """Class numbers (C,) of class vectors, which may be one process's share of all."""
    first = 0 if share is None else share.first
    return torch.arange(first, first + len(proxies), device=proxies.device)


def built(
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
    if any(block.spread is not None for block in references):
        chosen = tiling_of_passed()
        if len(references.blocks) > 1:
            refuse_passing("references beside the batch are compared with")
        if chosen is None:
            raise UserError(PASSED_DENSE)
        return tiled(vectors, row_labels, references, sphere=sphere, normalise=normalise, tiling=chosen)
    depth = max([1, *(block.vectors.shape[1] for block in references.blocks if block.vectors.ndim == 3)])
    tiling = tiling_of(len(vectors), len(references), depth)
    if tiling is not None and len(vectors) and len(references):
        return tiled(vectors, row_labels, references, sphere=sphere, normalise=normalise, tiling=tiling)
    wide = unit if normalise else widened
    rows = wide(vectors)
    return Comparison(rows, row_labels, references.each(lambda each: rows if each is vectors else wide(each)), sphere)


def matching(proxies: Tensor, embeddings: Tensor) -> Tensor:
    """Class vectors in the precision of the comparison; parameters themselves keep their type."""
    wide = widened(embeddings[:0]).dtype
    return proxies if widened(proxies[:0]).dtype == wide else proxies.to(wide)


def known_rows(labels: Tensor, classes: int) -> Tensor:
    """Labels as given; refused outside a compiled graph if one has no row among the proxies."""
    if torch.compiler.is_compiling() or labels.ndim == 2 or not len(labels):
        return labels
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise UserError(
            f"labels run from {low} to {high} but there are proxies for classes 0 to {classes - 1}; "
            "pass class_ids= (the training ids) when the loss is built"
        )
    return labels
