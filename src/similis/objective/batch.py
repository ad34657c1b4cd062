"""What a loss is called with and built for: embeddings, labels and classes, checked and encoded."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from similis.labels import encode_labels, is_integers, list_labels, number_classes
from similis.objective.terms.labels import sort_class_ids
from similis.objective.terms.references import References
from similis.registry import LossEntry
from similis.values import Pairs, Triplets, UserError


def check_embeddings(embeddings: Tensor, learned: Mapping[str, Tensor]) -> None:
    """Raise unless there is a floating-point row for each sample, as long as the proxies; shapes alone are read."""
    if not isinstance(embeddings, Tensor) or not embeddings.is_floating_point():
        kind = embeddings.dtype if isinstance(embeddings, Tensor) else type(embeddings).__name__
        raise UserError(f"embeddings are {kind}; pass a floating-point tensor (B, D)")
    if embeddings.ndim != 2:
        raise UserError(f"embeddings have shape {tuple(embeddings.shape)}; pass one row per sample, (B, D)")
    for name, value in learned.items():
        if value.ndim > 1 and value.shape[-1] != embeddings.shape[1]:
            raise UserError(
                f"embeddings have {embeddings.shape[1]} dimensions and the {name} of the loss {value.shape[-1]}; "
                f"build it with dim={embeddings.shape[1]}"
            )


def check_call(entry: LossEntry, labels: Tensor, references: References | None, tuples: object) -> None:
    """Raise where a loss has no meaning for a relation, a memory or mined tuples."""
    if labels.ndim == 2 and entry.relation == "none":
        raise UserError(f"{entry.name} has no meaning for a relation matrix; pass labels of shape (B,)")
    if references is not None and len(references.blocks) > 1 and not entry.memory:
        raise UserError(f"{entry.name} cannot use a memory: its references are not samples; drop the memory")
    if tuples is None:
        return
    if entry.accepts is None:
        raise UserError(f"{entry.name} takes no mined tuples; call it without tuples=")
    if not isinstance(tuples, Pairs | Triplets):
        raise UserError(
            f"tuples are a {type(tuples).__name__}; give Triplets(anchors, positives, negatives) or Pairs(...) of "
            "similis.formula"
        )


def encode_batch(labels: Any, names: Mapping[Hashable, int] | None, needs_all: str = "") -> Tensor:
    """Labels as a tensor; values other than integers are numbered by ``names``, or else for this call alone.

    Args:
        labels: a list of any hashable values.
        names: class -> number, from ``class_ids``.
        needs_all: why numbers must hold beyond this call, as the beginning of a sentence; empty if they need not.
    """
    values = list_labels(labels)
    if names is None and needs_all and not is_integers(values):
        raise UserError(
            f"labels are {type(values[0]).__name__}, and {needs_all}; name all classes when the loss is built: "
            "class_ids=set(all_labels)"
        )
    return encode_labels(values, names)


def hash_names(names: Iterable[Hashable]) -> Tensor:
    """What a saved state keeps of classes that are no integers: 64 bits, so that proxies never change their class."""
    told = hashlib.sha256("\n".join(map(repr, names)).encode()).digest()[:8]
    return torch.tensor(int.from_bytes(told, "little", signed=True), device="cpu")


def on_load(loss: Any, _: object) -> None:
    """A state was loaded into a loss: its names have to be those of the state; ids on the host are fetched anew."""
    loss.known_ids = None
    if loss.names is not None and not torch.equal(loss.names_digest.cpu(), hash_names(loss.names)):
        raise UserError(
            f"the state was saved for other classes than the {len(loss.names)} class_ids of this loss; build it with "
            "the same class_ids"
        )


def resolve_classes(
    class_ids: Iterable[Hashable] | None, num_classes: int | None
) -> tuple[dict[Hashable, int] | None, Tensor | None]:
    """Class -> row where the ids are no integers, and sorted ids (C,) where they are; None for the other of the two."""
    if class_ids is None:
        return None, None
    classes = list_labels(class_ids.tolist() if isinstance(class_ids, Tensor) else class_ids)
    if is_integers(classes):
        return None, sort_class_ids(classes, num_classes)
    return number_classes(classes, num_classes), None
