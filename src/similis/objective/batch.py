"""What a loss is called with and built for: embeddings, labels and classes, checked and encoded."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.labels import encode_labels, is_integers, list_labels, number_classes
from similis.objective.host_copies import known_on_host, on_host
from similis.registry import LossEntry
from similis.values import UserError, send

Check = Callable[..., Tensor]
CLASSES = "pass classes of shape (B,), for one-hot rows labels.argmax(1)"
logger = logging.getLogger(__name__)


class Side(NamedTuple):
    """What queries are compared with.

    Attributes:
        documents: (M, D) of this rank, with gradient.
        labels: (M,); None for those of the queries.
        negatives: (N, D) hard negatives of all queries, or (B, K, D) of each query its own.
    """

    documents: Tensor
    labels: Any = None
    negatives: Tensor | None = None


def make_side(documents: Tensor | None, labels: Any, negatives: Tensor | None) -> Side | None:
    """What queries are compared with, as a loss is given it; None for the batch itself."""
    if documents is not None:
        return Side(documents, labels, negatives)
    if labels is not None or negatives is not None:
        raise UserError("document_labels or negatives are given without documents; pass documents= too")
    return None


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


def check_when_called(schema: str, on_device: Check) -> Callable[[Check], Check]:
    """Keep a check of labels in compiled graphs, where it runs with every call, as an operator of its own.

    A compiler sees no values, so a plain ``if`` on them would end the graph or vanish from it. A compiled graph of a
    device is not to be waited for; there a wrong label is the number of no class, and the loss is NaN (see
    :func:`spoil_strangers`).

    Args:
        schema: of the operator; the function takes labels first and returns a tensor like them.
        on_device: what stands in for the function in a compiled graph of a device.
    """

    def register(check: Check) -> Check:
        operator = torch.library.custom_op(
            f"similis::{check.__name__}",
            lambda *given: check(*given).clone(),  # an operator's result is no view of its input
            mutates_args=(),
            schema=schema,
        )
        operator.register_fake(lambda labels, *_: torch.empty_like(labels))

        @wraps(check)
        def call(*given: Any) -> Tensor:
            if not torch.compiler.is_compiling():
                return check(*given)
            return operator(*given) if given[0].is_cpu else on_device(*given)

        return call

    return register


def check_labels(labels: Tensor, rows: int, what: str = "embeddings") -> Tensor:
    """Labels as int64, or a relation as it is; anything else is refused."""
    if not isinstance(labels, Tensor):
        raise UserError(f"labels are {type(labels).__name__}; a function takes a tensor, similis.loss(...) any labels")
    if labels.ndim == 2:
        if labels.shape[0] != rows:
            raise UserError(f"the relation has {labels.shape[0]} rows for {rows} {what}; pass one row for each")
        return labels
    if labels.ndim != 1 or len(labels) != rows:
        raise UserError(f"labels have shape {tuple(labels.shape)} for {rows} {what}; pass one integer for each")
    if labels.is_floating_point() or labels.is_complex():
        raise UserError(f"labels are {labels.dtype}; class ids are integers (labels.long())")
    return labels.long()


def find_class_rows(labels: Tensor, ids: Tensor, known: Tensor | None = None) -> Tensor:
    """Row number of each label among sorted class ids; other labels raise an error.

    With the ids on the host, ``known``, rows of a device's labels are found there and sent: nobody waits for them.
    """
    checked = check_labels(labels, len(labels))
    if known is None:
        return find_rows(checked, ids)
    rows = find_rows(on_host(labels).long(), known)
    return known_on_host(send(rows, labels.device), rows)


def find_rows_unchecked(labels: Tensor, ids: Tensor) -> Tensor:
    """As :func:`find_rows`; a strange label gets a row that there is not."""
    rows = torch.searchsorted(ids, labels).clamp(max=len(ids) - 1)
    return torch.where(ids[rows] == labels, rows, len(ids))


@check_when_called("(Tensor labels, Tensor ids) -> Tensor", on_device=find_rows_unchecked)
def find_rows(labels: Tensor, ids: Tensor) -> Tensor:
    """As :func:`rows_of`, for labels that are int64."""
    rows = torch.searchsorted(ids, labels).clamp(max=len(ids) - 1)
    found = ids[rows] == labels
    if not rows.is_cpu:  # one transfer for the numbers and for whether they are right
        known, found = torch.stack([rows, found.long()]).cpu()
        known_on_host(rows, known)
    if not bool(found.all()):
        strange = labels[ids[rows] != labels][:5].tolist()
        raise UserError(f"labels {strange} are not among the {len(ids)} class_ids that the loss was built with")
    return rows


def sort_class_ids(class_ids: Iterable[int], num_classes: int | None) -> Tensor:
    """Class ids in rising order as int64; repeated ids or a wrong number of them are refused."""
    return torch.tensor(list(number_classes([int(i) for i in class_ids], num_classes)), dtype=torch.int64)


def spoil_strangers(value: Tensor, labels: Tensor, learned: Mapping[str, Tensor]) -> Tensor:
    """The value of a loss on a device, NaN where a label is the number of no class; nothing is waited for.

    Args:
        value: of the loss.
        labels: (B,) row numbers of what is learned for each class; on the host they were looked at.
        learned: what is learned, for each class or for all.
    """
    classes = max([0, *(len(each) for each in learned.values() if each.ndim)])
    if not classes or labels.ndim != 1 or labels.is_cpu:
        return value
    return torch.where(((labels < 0) | (labels >= classes)).any(), float("nan"), value)


def check_rows(labels: Tensor, classes: int) -> Tensor:
    """Labels as given, or a relation (B, C); a label that has no row among the proxies raises an error."""
    if labels.ndim != 2:
        return check_range(labels, classes)
    if labels.shape[1] != classes:
        raise UserError(
            f"labels have shape {tuple(labels.shape)} and there are {classes} proxies; pass classes of shape (B,), or "
            f"a relation of shape (B, {classes}) for several classes per sample"
        )
    return check_grades(labels, -1)


def check_relation(relation: Tensor, first: int, columns: int) -> Tensor:
    """The relation; raises unless it has a column for each sample of the live batch, and is not one-hot rows.

    Args:
        relation: (B, columns).
        first: the column that is the first row itself.
        columns: samples of the live batch.
    """
    if relation.shape[1] != columns:
        allowed = f"a relation of shape (B, {columns}), or documents by their name, documents="
        raise UserError(f"labels have shape {tuple(relation.shape)}; {CLASSES}, {allowed}")
    return check_grades(relation, first)


@check_when_called("(Tensor relation, SymInt first) -> Tensor", on_device=lambda relation, _: relation)
def check_grades(relation: Tensor, first: int) -> Tensor:
    """A relation as given; NaN raises, and so do 0 and 1 with a 0 where a row meets itself (nowhere if first is -1).

    Both signs there raise too, if the numbers below 0 differ: these are documents.
    """
    if relation.is_floating_point() and bool(relation.isnan().any()):
        raise UserError("the relation holds NaN; give a grade above 0 for positives, 0 for negatives, less for neither")
    itself = relation[:, first : first + len(relation)].diagonal() if first >= 0 else relation[:0, 0]
    if bool((itself == 0).any()) and bool(((relation == 0) | (relation == 1)).all()):
        raise UserError(
            f"labels have shape {tuple(relation.shape)} and hold 0 and 1 with a 0 on the diagonal, so a sample would "
            f"not be of its own class; {CLASSES}, or a relation with 1 on its diagonal"
        )
    if bool((itself < 0).any()) and bool((itself > 0).any()) and len(set(relation[relation < 0].tolist())) > 1:
        raise UserError(  # where other libraries take documents
            "the relation has both signs on its diagonal, where a sample meets itself, and several numbers below 0; "
            "give 1 on the diagonal. If these are documents, pass them as documents="
        )
    return relation


@check_when_called("(Tensor labels, SymInt classes) -> Tensor", on_device=lambda labels, _: labels)
def check_range(labels: Tensor, classes: int) -> Tensor:
    """As :func:`known_rows`, for labels (B,)."""
    if not len(labels):
        return labels
    names = labels if labels.is_cpu else on_host(labels)
    low, high = int(names.min()), int(names.max())
    if low < 0 or high >= classes:
        raise UserError(
            f"labels run from {low} to {high} but there are proxies for classes 0 to {classes - 1}; "
            "pass class_ids= (the training ids) when the loss is built"
        )
    return labels


def warns_of_lonely(entry: LossEntry, value: Tensor, labels: Tensor) -> bool:
    """Warn if a loss of pairs is 0 because no two samples are of one class; whether it did. No device is waited for."""
    if entry.learns or labels.ndim != 1 or not (labels.is_cpu and value.is_cpu) or len(labels) < 2:
        return False
    try:
        silent = not bool(value != 0)
    except RuntimeError:  # torch.vmap knows no values
        return False
    if not silent or len(torch.unique(labels)) < len(labels):
        return False
    logger.warning(
        "every sample of a batch of %d has a class of its own, so %s is 0 and nothing is learned; draw batches of "
        "several samples of each class: training.sampler=balanced in a run, a class-balanced sampler in your loop",
        len(labels), entry.name,
    )  # fmt: skip
    return True
