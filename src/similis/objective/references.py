"""What anchors are compared with: blocks of reference vectors, and who is a positive of whom.

References are an iterable of blocks (the live batch, a memory of earlier batches, the classes).
A row never meets itself: it is left out by position in the batch and by image id in a memory,
never by looking at the similarity, so that true duplicates stay. That happens here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.batch import check_relation
from similis.objective.context import Partition, current_context
from similis.objective.host_copies import gather_integers, on_host
from similis.objective.terms.tile import Set
from similis.values import UserError


@dataclass(frozen=True)
class Block:
    """Reference vectors (M, D), or (M, K, D) for classes of K vectors.

    ``own`` holds, for each row, the id that is the row itself, and ``ids`` the ids of the columns;
    both are None where no column can be the row (classes). ``relation`` (rows, M) stands in for
    labels: above 0 a positive with that grade, 0 a negative, below 0 neither. ``mirrored`` blocks
    hold every pair twice, as (i, j) and (j, i). Columns of a ``private`` block are negatives of the row that
    they have the id of, and nothing to other rows.
    """

    vectors: Tensor
    labels: Tensor | None
    own: Tensor | None = None
    ids: Tensor | None = None
    relation: Tensor | None = None
    mirrored: bool = False
    private: bool = False

    def __len__(self) -> int:
        return self.vectors.shape[0]

    def same(self, row_labels: Tensor | None) -> Tensor:
        """(rows, M): equal labels, or a relation above 0. Self is still among them."""
        if self.relation is not None:
            return self.relation > 0
        if row_labels is None or self.labels is None:
            raise UserError("this comparison has neither labels nor a relation; pass one of them")
        return row_labels[:, None] == self.labels[None, :]

    def members(self, which: Set, row_labels: Tensor | None) -> Tensor | None:
        """(rows, M): the columns that belong to the set of each row; None if all do."""
        if self.private and self.own is not None and self.ids is not None:
            own = self.own[:, None] == self.ids[None, :]
            return torch.zeros_like(own) if which == "pos" else own
        if which == "every":
            return None
        if which == "neg" and self.mirrored and self.relation is None:
            return ~self.same(row_labels)  # in the live batch a row's own column has its own label
        strangers = None if self.own is None or self.ids is None else self.own[:, None] != self.ids[None, :]
        if which == "others":
            return strangers
        same = self.same(row_labels)
        inside = same if which == "pos" else self.relation == 0 if self.relation is not None else ~same
        return inside if strangers is None else inside & strangers

    def positives(self, row_labels: Tensor | None) -> tuple[Tensor, Tensor]:
        """Column numbers (rows, m) of each row's positives in rising order, and which are real."""
        index, real = self.alike(row_labels)
        if self.own is not None and self.ids is not None:
            real = real & (self.ids[index] != self.own[:, None])
        return index, real

    def alike(self, row_labels: Tensor | None) -> tuple[Tensor, Tensor]:
        """Column numbers (rows, m) of each row's positives, itself among them, in rising order, and which are real."""
        if self.relation is not None:
            found, index = self.same(row_labels).sort(dim=1, descending=True, stable=True)
            width = padded_width(found.sum(1), len(self))
            return index[:, :width], found[:, :width]
        if row_labels is None or self.labels is None:
            raise UserError("positives need labels or a relation; pass one of them")
        ordered, order = self.labels.sort(stable=True)
        first = torch.searchsorted(ordered, row_labels)
        size = torch.searchsorted(ordered, row_labels, right=True) - first
        known = size if size.is_cpu or torch.compiler.is_compiling() else self.class_sizes(row_labels)
        step = torch.arange(padded_width(known, len(self)), device=first.device)
        return order[(first[:, None] + step).clamp(max=max(len(self) - 1, 0))], step < size[:, None]

    def class_sizes(self, row_labels: Tensor) -> Tensor:
        """(rows,) how many columns have the row's label, from the labels on the host."""
        assert self.labels is not None
        wanted, ordered = on_host(row_labels), on_host(self.labels).sort().values
        return torch.searchsorted(ordered, wanted, right=True) - torch.searchsorted(ordered, wanted)


def padded_width(sizes: Tensor, columns: int) -> int:
    """Longest list; inside a compiled graph, where shapes cannot depend on labels, all columns."""
    if torch.compiler.is_compiling() or not len(sizes):
        return columns
    return max(int(sizes.max()), 1)


class Documents(NamedTuple):
    """The documents (M, D) of this rank with their labels (M,), where rows are queries."""

    vectors: Tensor
    labels: Tensor


@dataclass(frozen=True)
class References:
    """Blocks of columns in order; column numbers run through all of them.

    Build them with :func:`batch_references`; losses build them themselves when none are given.
    ``joint`` tells how the rows are spread over ranks; None if they are all on this one. With ``documents`` the
    first block holds those of all ranks; without, it is the live batch, whose rows are columns too.
    """

    blocks: tuple[Block, ...]
    joint: Partition | None = None
    documents: Documents | None = None

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def cut(self, size: int) -> References:
        """The same references, first ``size`` coordinates only."""
        own = None if self.documents is None else self.documents._replace(vectors=self.documents.vectors[:, :size])
        return replace(self.each(lambda vectors: vectors[..., :size]), documents=own)

    def each(self, change: Callable[[Tensor], Tensor]) -> References:
        """The same references with the vectors of every block changed."""
        return replace(self, blocks=tuple(replace(b, vectors=change(b.vectors)) for b in self.blocks))


def batch_references(embeddings: Tensor, labels: Tensor, memory: Block | None = None) -> References:
    """The live batch as references of itself, and after it a memory.

    Inside ``distributed`` the live batch is that of all ranks, in their order.

    Args:
        embeddings: (B, D), with gradient; the anchors of this rank.
        labels: (B,) class ids, or a relation (B, B) (distributed: rows of these anchors, columns of all).
        memory: detached rows of earlier batches, with the anchors' image ids in ``own``.
    """
    context = current_context()
    joint = None if context.communicator is None else context.partition(len(embeddings))
    relation = labels if labels.ndim == 2 else None
    if relation is not None:
        own, every = (0, len(embeddings)) if joint is None else (joint.first, joint.size)
        relation = check_relation(relation, own, every)
    first, vectors, own_labels = 0, embeddings, None if relation is not None else labels
    if joint is not None:
        first, vectors = joint.first, joint.gather(embeddings)
        own_labels = None if own_labels is None else gather_integers(own_labels, joint)
    position = torch.arange(len(vectors) if joint is None else joint.size, device=embeddings.device)
    block = Block(
        vectors=vectors,
        labels=own_labels,
        own=position[first : first + len(embeddings)],
        ids=position,
        relation=relation,
        mirrored=True,
    )
    if memory is None:
        return References((block,), joint)
    if relation is not None:
        raise UserError("a memory knows labels only; drop the relation matrix or the memory")
    return References((block, memory), joint)
