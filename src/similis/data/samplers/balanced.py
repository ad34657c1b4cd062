"""Balanced batches: P classes with K images each."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from similis.data.balanced_layout import allot, deal, group_by_label, spread
from similis.data.random_draws import counter_generator
from similis.data.sampling import SAMPLING, as_batches, number_of_batches, register_sampler
from similis.labels import encode_labels
from similis.values import UserError


@register_sampler
def balanced(labels: Any, *, batch_size: int, seed: int, epoch: int, per_class: int = 5) -> Tensor:
    """P = B / K different classes in every batch, K images of each.

    Images of a class are drawn without replacement over the epoch; a class with fewer than K shows all
    of them and repeats some. Every class comes, and every image as far as floor(N / B) batches reach:
    what is left out is the least possible and changes with the epoch. Where the batches have fewer places
    than there are classes, each epoch draws its classes at random. Images of a class stand together.

    Args:
        labels: (N,) class ids, a tensor or a list of any hashable values.
        batch_size: B, a multiple of K.
        seed: of the run.
        epoch: number of the epoch; batches are a pure function of these arguments.
        per_class: K; 2 for N-pair, 5 in the thesis.

    Shapes: labels (N,) -> (floor(N / B), B).

    When to use: with every loss that compares samples with samples.

    Example:
        >>> import torch
        >>> labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
        >>> labels[balanced(labels, batch_size=4, seed=0, epoch=0, per_class=2)][:, ::2].shape
        torch.Size([2, 2])
    """
    batches = number_of_batches(len(labels), batch_size)
    groups = group_by_label(encode_labels(labels).numpy())
    if per_class < 1 or batch_size % per_class:
        raise UserError(f"batch_size must be a multiple of per_class; given {batch_size} and {per_class}")
    if (classes := batch_size // per_class) > len(groups.sizes):
        raise UserError(
            f"a batch of {batch_size} with {per_class} of each class wants {classes} classes, there are "
            f"{len(groups.sizes)}; choose batch_size <= {len(groups.sizes) * per_class} or a larger per_class"
        )
    generator = counter_generator(seed, SAMPLING, epoch)
    given = allot(groups.sizes, per_class, batches, batches * classes, generator)
    places = spread(given, batches, generator).reshape(-1)
    rows = deal(places, groups, per_class, generator)
    return as_batches(rows.reshape(batches, batch_size))
