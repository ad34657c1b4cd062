"""Random batches: a shuffle, cut into batches."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from similis.data.random_draws import counter_generator
from similis.data.sampling import SAMPLING, as_batches, number_of_batches, register_sampler, shuffle


@register_sampler
def random(labels: Tensor, *, batch_size: int, seed: int, epoch: int) -> Tensor:
    """Every image at most once an epoch, in random order; the incomplete last batch is left out.

    Args:
        labels: (N,); only their number counts.
        batch_size: B.
        seed: of the run.
        epoch: number of the epoch.

    Shapes: labels (N,) -> (floor(N / B), B).

    When to use: with proxy and classification losses. Pair losses starve on it when classes are many.

    Example:
        >>> import torch
        >>> random(torch.zeros(7), batch_size=3, seed=0, epoch=0).shape
        torch.Size([2, 3])
    """
    batches = number_of_batches(len(labels), batch_size)
    order = shuffle(np.arange(len(labels)), counter_generator(seed, SAMPLING, epoch))
    return as_batches(order[: batches * batch_size].reshape(batches, batch_size))
