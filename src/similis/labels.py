"""Labels of any hashable kind as integers: the one place where strings, tuples or enums become class numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.values import UserError


def encode_labels(labels: Any, numbers: Mapping[Hashable, int] | None = None) -> Tensor:
    """Labels as a tensor: tensors and integers as they are, other values as numbers of their classes.

    Equal values are one class, as in a dictionary. A tensor is returned at once: nothing is looked at or waited for.

    Args:
        labels: a tensor, or any iterable of integers, strings, tuples, enums, ...
        numbers: class -> number; None numbers the values in the order in which they first occur, which is good for
            one call only: the next batch, or another rank, may begin with another class.

    Example:
        >>> encode_labels(["cat", ("dog", 3), "cat"]).tolist(), encode_labels([7, 9]).tolist()
        ([0, 1, 0], [7, 9])
    """
    if isinstance(labels, Tensor):
        return labels
    values = list_labels(labels)
    if numbers is None and is_integers(values):
        return torch.tensor([int(value) for value in values], dtype=torch.int64, device="cpu")
    try:
        table = {value: row for row, value in enumerate(dict.fromkeys(values))} if numbers is None else numbers
        strange = [value for value in values if value not in table]
    except TypeError as error:
        raise UserError(f"a label cannot be a class ({error}); give integers, strings, tuples or enums") from None
    if strange:
        some = ", ".join(repr(each) for each in list(table)[:5])
        raise UserError(f"label {strange[0]!r} is not among the {len(table)} class_ids ({some}, ...); name it there")
    return torch.tensor([table[value] for value in values], dtype=torch.int64, device="cpu")


def list_labels(labels: Any) -> list[Any]:
    """The labels as a list of plain values; raises for what is no collection, and where a label is missing."""
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise UserError(f"labels are {labels!r}; give one for each row: a tensor, or a list of any hashable values")
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    values = [value.item() if isinstance(value, Tensor) and value.ndim == 0 else value for value in values]
    missing = [
        row for row, value in enumerate(values) if value is None or (isinstance(value, float) and math.isnan(value))
    ]
    if missing:
        raise UserError(f"label {values[missing[0]]!r} of row {missing[0]} is missing; give every row a class")
    return values


def is_integers(values: Iterable[object]) -> bool:
    """Whether all values are integers, of Python or of numpy."""
    return all(isinstance(value, Integral) for value in values)


def number_classes(classes: Collection[Hashable], expected: int | None = None) -> dict[Hashable, int]:
    """Class -> number in sorted order, so that a set may be given; repeated classes or a wrong number of them raise.

    Example:
        >>> number_classes(["dog", "cat"])
        {'cat': 0, 'dog': 1}
    """
    try:
        order = sorted(classes)  # type: ignore[type-var]
    except TypeError:  # of several kinds, which have no order of their own
        order = sorted(classes, key=repr)
    found = {value: number for number, value in enumerate(order)}
    if len(found) != len(classes):
        twice = next(value for number, value in enumerate(order) if found[value] != number)
        raise UserError(f"class_ids repeat {twice!r}; pass each training class once")
    if expected is not None and expected != len(found):
        raise UserError(f"num_classes is {expected} but there are {len(found)} class_ids; pass only class_ids")
    return found
