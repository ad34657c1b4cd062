"""Cross-batch memory: embeddings of earlier batches as further references of every loss."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from similis.objective.batch import Side, make_side
from similis.objective.comparison.compare import match_precision
from similis.objective.context import current_context
from similis.objective.documents import document_references, encode_sides
from similis.objective.host_copies import fetch_to_host, gather_integers, known_on_host, on_host, plan_on_host
from similis.objective.loss import Loss
from similis.objective.references import Block, References, batch_references
from similis.objective.wrappers.nested import Nested
from similis.values import UserError

UNKNOWN = -1  # an image id that no image has: rows without an id are never taken for the anchor


class CrossBatchMemory(nn.Module):
    """A loss whose anchors also see the last ``size`` embeddings, without gradient.

    References of an anchor are the live batch (with gradient, its own row left out by position) and
    the memory (detached, rows with the anchor's image id left out). The loss is evaluated once over
    all of them. A batch enters the memory when the next one arrives, so after its step. The first
    ``start`` batches see no memory. Everything is in ``state_dict``. Ranks that share a batch
    (``distributed``) remember the rows of all of them.

    Args:
        loss: a loss that can use a memory (``similis losses show`` tells), or a nested one.
        size: rows kept, oldest overwritten first.
        dim: embedding size; None for that of the first batch.
        start: number of batches before the memory is used.

    Shapes: embeddings (B, D), labels (B,), image_ids (B,) -> ().

    Reference: Wang et al., Cross-Batch Memory for Embedding Learning, CVPR 2020 (its code adds a
    second loss over the memory instead).

    Example:
        >>> import torch
        >>> from similis.objective.loss import loss
        >>> remembering = CrossBatchMemory(loss("multi_similarity"), size=100)
        >>> remembering(torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2])).ndim
        0
    """

    vectors: Tensor
    labels: Tensor
    ids: Tensor
    seen: Tensor
    batches: Tensor

    def __init__(self, loss: Loss | Nested, size: int, dim: int | None = None, start: int = 0) -> None:
        super().__init__()
        if size < 1:
            raise UserError(f"the memory has {size} rows; at least 1 is needed")
        entry = loss.loss.entry if isinstance(loss, Nested) else loss.entry
        if not entry.memory:
            raise UserError(f"{entry.name} cannot use a memory: its references are not samples")
        self.loss = loss
        self.start = start
        self.register_buffer("vectors", torch.zeros(size, dim or 0))  # 0: until the first batch
        self.register_buffer("labels", torch.zeros(size, dtype=torch.int64))
        self.register_buffer("ids", torch.full((size,), UNKNOWN))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        self.register_load_state_dict_pre_hook(take_width)  # type: ignore[no-untyped-call]
        self._waiting: tuple[Tensor, Tensor, Tensor] | None = None
        self._readers: set[object] = set()  # graphs, and saved states, that may still need the rows as they are

    def __len__(self) -> int:
        """Rows filled so far."""
        return min(int(on_host(self.seen)), len(self.vectors))

    def forward(
        self,
        embeddings: Tensor,
        labels: Any,
        *,
        image_ids: Tensor | None = None,
        documents: Tensor | None = None,
        document_labels: Any = None,
        negatives: Tensor | None = None,
    ) -> Tensor:
        """The loss over batch and memory; in training mode the batch, or its documents, then wait to be remembered.

        Labels have to mean the same in every batch, so documents need them too.
        """
        with self.join_ranks():
            side = make_side(documents, document_labels, negatives)
            if labels is None:
                raise UserError("labels are None; a memory needs labels that mean the same in every batch")
            if side is None:
                labels = self.encode(labels)
            else:
                inner = self.loss.loss if isinstance(self.loss, Nested) else self.loss
                labels, side = encode_sides(inner.entry, inner.learned.values(), self.encode, labels, side)
            if embeddings.is_cpu:
                return self._with_rows(embeddings, labels, image_ids, side)
            with plan_on_host(embeddings, labels) as here:
                return self._with_rows(embeddings, here, image_ids, side)

    def join_ranks(self) -> AbstractContextManager[None]:
        """Inside, losses see the batches of the ranks that the loss inside was built for."""
        return self.loss.join_ranks()

    def encode(self, labels: Any) -> Tensor:
        """Labels as a tensor, in numbers that hold for all batches."""
        return self.loss.encode(labels, self)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """The optimiser groups of the loss inside."""
        return self.loss.parameter_groups(lr)

    def _with_rows(self, embeddings: Tensor, labels: Tensor, image_ids: Tensor | None, side: Side | None) -> Tensor:
        if not self.vectors.shape[1]:
            self.vectors = self.vectors.new_zeros(len(self.vectors), embeddings.shape[1])
        if self._waiting is not None and self.training:
            self.remember(*self._waiting)
            self._waiting = None
        unknown = torch.full_like(labels, UNKNOWN, dtype=torch.int64)
        ids = unknown if image_ids is None else image_ids.to(embeddings.device, torch.int64, non_blocking=True)
        own = torch.where(ids == UNKNOWN, UNKNOWN - 1, ids)  # an anchor without an id must not match rows without one
        fetch_to_host(self.seen, self.batches, labels, own, self.labels, self.ids)
        filled = len(self) if int(on_host(self.batches)) >= self.start else 0
        if not filled and side is None:
            value: Tensor = self.loss(embeddings, labels)
        else:
            value = self.loss(embeddings, labels, references=self._references(embeddings, labels, own, filled, side))
            self._await_backward(value)
        if self.training:
            self.batches = self.batches + 1
            if side is not None:
                embeddings, labels, ids = side.documents, side.labels, torch.full_like(side.labels, UNKNOWN)
            # copies: the caller may fill the same buffers with the next batch
            waiting = of_all_processes(embeddings.detach(), labels.long(), ids.to(embeddings.device))
            self._waiting = waiting[0].clone(), waiting[1].clone(), waiting[2].clone()
        return value

    def _references(
        self, embeddings: Tensor, labels: Tensor, own: Tensor, filled: int, side: Side | None
    ) -> References:
        """The live batch, or its documents, and the rows of the memory."""
        inner = self.loss.loss if isinstance(self.loss, Nested) else self.loss
        names, ids = (known_on_host(x[:filled], on_host(x)[:filled]) for x in (self.labels, self.ids))
        rows = inner.class_rows(names) if inner.learned else names
        vectors = match_precision(self.vectors[:filled], embeddings)
        live = inner.class_rows(labels) if inner.learned else labels
        if side is None:
            return batch_references(embeddings, live.long(), Block(vectors, rows, own=own, ids=ids))
        named = inner.class_rows(side.labels) if inner.learned else side.labels
        kept = Block(vectors, rows) if filled else None
        return document_references(embeddings, live, side._replace(labels=named), kept)[1]

    @torch.no_grad()
    def remember(self, embeddings: Tensor, labels: Tensor, image_ids: Tensor) -> None:
        """Write rows over the oldest ones; a batch larger than the memory leaves its last rows."""
        capacity = len(self.vectors)
        keep = slice(max(len(embeddings) - capacity, 0), None)
        kept = embeddings[keep]
        place = (self.seen + torch.arange(len(kept), device=self.vectors.device)) % capacity
        if self._readers:
            self.vectors, self.labels, self.ids = self.vectors.clone(), self.labels.clone(), self.ids.clone()
            self._readers = set()
        self.vectors.index_copy_(0, place, kept.to(self.vectors.dtype))
        self.labels.index_copy_(0, place, labels[keep].long())
        self.ids.index_copy_(0, place, image_ids[keep].long())
        self.seen = self.seen + len(kept)

    def _await_backward(self, value: Tensor) -> None:
        """Keep the rows until the backward pass of the value has run."""
        if value.requires_grad:
            reader = object()
            self._readers.add(reader)
            value.register_hook(lambda _: self._readers.discard(reader))  # type: ignore[no-untyped-call]

    def get_extra_state(self) -> dict[str, Any]:
        """The batch that waits to be remembered; the state shares the rows, which are not overwritten from now on."""
        self._readers.add(object())
        return {} if self._waiting is None else dict(zip(("vectors", "labels", "ids"), self._waiting, strict=True))

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take back a copy of the waiting batch of :meth:`get_extra_state`."""
        kept = {key: value.to(self.vectors.device, copy=True) for key, value in state.items()}
        self._waiting = (kept["vectors"], kept["labels"], kept["ids"]) if kept else None


def take_width(memory: CrossBatchMemory, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Before a state is loaded: a memory that has seen no batch takes the width of the state's vectors."""
    saved = state.get(f"{prefix}vectors")
    if saved is not None and not memory.vectors.shape[1]:
        memory.vectors = memory.vectors.new_zeros(len(memory.vectors), saved.shape[1])


def of_all_processes(embeddings: Tensor, labels: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The global batch: every rank remembers the rows of all, so that their memories are one."""
    joint = current_context().partition(len(embeddings))
    if joint is None:
        return embeddings, labels, ids
    return joint.gather(embeddings), gather_integers(labels, joint), gather_integers(ids, joint)
