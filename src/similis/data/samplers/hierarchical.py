"""Hierarchical batches: classes that are close to each other by their super-class."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from similis.data.balanced_layout import LabelGroups, allot, deal, group_by_label, spread
from similis.data.random_draws import counter_generator
from similis.data.samplers.balanced import classes_per_batch
from similis.data.sampling import SAMPLING, Ints, as_batches, number_of_batches, register_sampler
from similis.labels import encode_labels
from similis.values import UserError


@register_sampler
def hierarchical(
    labels: Any, *, groups: Any, batch_size: int, seed: int, epoch: int, per_class: int = 5, supers: int = 2
) -> Tensor:
    """G super-classes in every batch, P / G classes of each, K images of each class.

    Super-classes come as often as their images ask for; their classes and the images of a class come in
    turn, without replacement. A super-class of fewer than P / G classes repeats classes within a batch.

    Args:
        labels: (N,) class ids, a tensor or a list of any hashable values.
        groups: (N,) super-class ids; a class belongs to one.
        batch_size: B, a multiple of K * G.
        seed: of the run.
        epoch: number of the epoch.
        per_class: K.
        supers: G.

    Shapes: labels, groups (N,) -> (floor(N / B), B).

    When to use: when random negatives are too easy: here most negatives share the super-class.

    Example:
        >>> import torch
        >>> labels = torch.arange(8).repeat_interleave(4)
        >>> rows = hierarchical(labels, groups=labels // 4, batch_size=8, seed=0, epoch=0, per_class=2, supers=1)
        >>> (labels[rows] // 4).unique(dim=1).shape
        torch.Size([4, 1])
    """
    batches = number_of_batches(len(labels), batch_size)
    rows_by_class = group_by_label(encode_labels(labels).numpy())
    wanted = classes_per_batch(batch_size, per_class, len(rows_by_class.sizes))
    if supers < 1 or wanted % supers:
        raise UserError(f"{wanted} classes in a batch do not divide over {supers} super-classes; change one of them")
    classes_by_super = group_by_label(super_of_class(rows_by_class, encode_labels(groups).numpy()))
    if supers > len(classes_by_super.sizes):
        raise UserError(f"supers={supers}, but there are only {len(classes_by_super.sizes)} super-classes")
    generator = counter_generator(seed, SAMPLING, epoch)
    each = wanted // supers
    images = np.add.reduceat(rows_by_class.sizes[classes_by_super.members], classes_by_super.starts)
    given = allot(images, each * per_class, batches, batches * supers, generator)
    blocks = spread(given, batches, generator).reshape(-1)
    places = deal(blocks, classes_by_super, each, generator).reshape(-1)
    rows = deal(places, rows_by_class, per_class, generator)
    return as_batches(rows.reshape(batches, batch_size))


def super_of_class(rows: LabelGroups, groups: Ints) -> Ints:
    """The super-class of each class (C,); a class in two of them is an error."""
    found = np.zeros(len(rows.sizes), dtype=np.int64)
    found[rows.numbers] = groups
    torn = np.flatnonzero(found[rows.numbers] != groups)
    if len(torn):
        raise UserError(f"row {torn[0]} has another super-class than the rest of its class; a class belongs to one")
    return found
