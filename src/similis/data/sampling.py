"""What samplers share: the registry and the division of a batch over ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from similis.registry import Entry, Registry
from similis.values import UserError

Ints = NDArray[np.int64]
Sampler = Callable[..., Tensor]
SAMPLING = 0  # the stream of random numbers that samplers draw from
samplers: Registry[Entry] = Registry("sampler", "similis.data.samplers")


def register_sampler(function: Sampler) -> Sampler:
    """Register the decorated function as a sampler under its own name."""
    samplers.add(Entry(name=function.__name__, function=function, paper=""))
    return function


def shuffle(values: Ints, generator: np.random.Generator) -> Ints:
    """Values in random order, by sorting uniform numbers: stable over versions of numpy."""
    return np.asarray(values[np.argsort(generator.random(len(values)), kind="stable")])


def number_of_batches(rows: int, batch_size: int) -> int:
    """Number of whole batches, floor(N / B); zero raises an error."""
    if batch_size < 1:
        raise UserError(f"a batch has at least one image; given batch_size={batch_size}")
    if rows < batch_size:
        raise UserError(f"{rows} images do not fill one batch of {batch_size}; choose a batch_size of at most {rows}")
    return rows // batch_size


def shard_batches(batches: Tensor, rank: int, world: int) -> Tensor:
    """The columns of one rank: joined in the order of ranks, shards are the batches again.

    Args:
        batches: (batches, B) row numbers.
        rank: 0 to world - 1.
        world: number of ranks; where B is no multiple of it, the first ranks have one image more.

    Example:
        >>> shard_batches(torch.arange(10).view(2, 5), rank=1, world=2)
        tensor([[3, 4],
                [8, 9]])
    """
    if not 0 <= rank < world or world > batches.shape[1]:
        raise UserError(
            f"rank {rank} of {world} with batches of {batches.shape[1]}: want 0 <= rank < world <= batch size"
        )
    return torch.tensor_split(batches, world, dim=1)[rank]


def as_batches(rows: NDArray[Any]) -> Tensor:
    """A numpy array of row numbers as an int64 tensor."""
    return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64))
