"""Labels of a batch: their type, and the rows of the class vectors that they stand for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from similis.labels import number_classes
from similis.objective.host_copies import known_on_host, on_host
from similis.objective.terms.reductions import is_false
from similis.registry import LossEntry
from similis.values import UserError, send

Check = Callable[..., Tensor]
CLASSES = "pass classes of shape (B,), for one-hot rows labels.argmax(1)"
logger = logging.getLogger(__name__)


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
        raise UserError(f"labels have shape {tuple(relation.shape)}; {CLASSES}, or a relation of shape (B, {columns})")
    return check_grades(relation, first)


@check_when_called("(Tensor relation, SymInt first) -> Tensor", on_device=lambda relation, _: relation)
def check_grades(relation: Tensor, first: int) -> Tensor:
    """A relation as given; NaN raises, and so do 0 and 1 with a 0 where a row meets itself (nowhere if first is -1)."""
    if relation.is_floating_point() and bool(relation.isnan().any()):
        raise UserError("the relation holds NaN; give a grade above 0 for positives, 0 for negatives, less for neither")
    itself = relation[:, first : first + len(relation)].diagonal() if first >= 0 else relation[:0, 0]
    if bool((itself == 0).any()) and bool(((relation == 0) | (relation == 1)).all()):
        raise UserError(
            f"labels have shape {tuple(relation.shape)} and hold 0 and 1 with a 0 on the diagonal, so a sample would "
            f"not be of its own class; {CLASSES}, or a relation with 1 on its diagonal"
        )
    return relation


@check_when_called("(Tensor labels, SymInt classes) -> Tensor", on_device=lambda labels, _: labels)
def check_range(labels: Tensor, classes: int) -> Tensor:
    """As :func:`known_rows`, for labels (B,)."""
    if not len(labels):
        return labels
    names = on_host(labels)
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
    if not is_false(value != 0) or len(torch.unique(labels)) < len(labels):
        return False
    logger.warning(
        "every sample of a batch of %d has a class of its own, so %s is 0 and nothing is learned; draw batches of "
        "several samples of each class: training.sampler=balanced in a run, a class-balanced sampler in your loop",
        len(labels), entry.name,
    )  # fmt: skip
    return True
