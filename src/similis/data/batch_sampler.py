"""Balanced batches for any ``DataLoader``, on any number of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Sampler

from similis.data.samplers.balanced import balanced
from similis.data.sampling import number_of_batches, shard_batches
from similis.labels import encode_labels
from similis.registry import find_communicator
from similis.values import UserError


class BalancedBatchSampler(Sampler[list[int]]):
    """Batches of ``classes`` classes with ``per_class`` images each: the ``batch_sampler`` of a ``DataLoader``.

    These are the batches of ``similis train``: see :func:`similis.data.samplers.balanced.balanced`. They belong to all
    ranks; each takes its part of every batch, so that the ranks together see a batch once, without repetition. Each
    pass over the sampler is the next epoch, also after a pass that was broken off.

    Args:
        labels: (N,) class of each item of the data set, a tensor or a list of any hashable values.
        classes: P, in the batch of all ranks.
        per_class: K; the batch of all ranks has P * K items.
        rank: of this process; None for its rank in the process group, 0 without one.
        world_size: number of ranks; None for that of the process group, 1 without one.
        seed: the same on every rank.

    When to use: with every loss that compares samples with samples.

    Example:
        >>> sampler = BalancedBatchSampler(["cat", "dog", "emu"] * 8, classes=2, per_class=3, rank=0, world_size=1)
        >>> len(sampler), [len(batch) for batch in sampler]
        (4, [6, 6, 6, 6])
    """

    def __init__(
        self,
        labels: Any,
        *,
        classes: int,
        per_class: int = 5,
        rank: int | None = None,
        world_size: int | None = None,
        seed: int = 0,
    ) -> None:
        self.labels = encode_labels(labels)
        self.batch_size = classes * per_class
        self.per_class = per_class
        ranks = find_communicator() if rank is None or world_size is None else None
        self.rank = rank if rank is not None else 0 if ranks is None else ranks.rank
        self.world_size = world_size if world_size is not None else 1 if ranks is None else ranks.world
        self.seed = seed
        self.epoch = self.batch = 0
        self._loaded = False  # whether the next pass goes on where a state says
        known, items = len(torch.unique(self.labels)), len(self.labels)
        if not 1 <= classes <= known or per_class < 1 or items < self.batch_size:
            raise UserError(
                f"classes={classes} and per_class={per_class} given for {items} items of {known} classes; a batch "
                f"takes 1 to {known} classes and at most {items} items: choose fewer of either"
            )
        self._own(0)  # a rank that cannot be is refused here

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return number_of_batches(len(self.labels), self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of the next epoch, or the rest of the one that a state was loaded for."""
        if self.batch and not self._loaded:  # a pass that ended, or that a trainer broke off
            self.set_epoch(self.epoch + 1)
        self._loaded = False
        own = self._own(self.epoch)
        while self.batch < len(own):
            self.batch += 1
            yield own[self.batch - 1].tolist()

    def set_epoch(self, epoch: int) -> None:
        """Begin with an epoch; trainers that count epochs themselves call it."""
        if epoch != self.epoch or not self._loaded:
            self.epoch, self.batch, self._loaded = epoch, 0, False

    def state_dict(self) -> dict[str, int]:
        """Where it stands: the epoch, and the batches of it that were handed out.

        A ``DataLoader`` with workers fetches batches ahead of your steps: then save ``{"epoch": ..., "batch": ...}``
        with your own count of steps.
        """
        return {"epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on after the batches of :meth:`state_dict`, on any number of ranks."""
        done = state["batch"] >= len(self)
        self.epoch, self.batch, self._loaded = state["epoch"] + done, 0 if done else state["batch"], not done

    def _own(self, epoch: int) -> Tensor:
        every = balanced(self.labels, batch_size=self.batch_size, seed=self.seed, epoch=epoch, per_class=self.per_class)
        return shard_batches(every, self.rank, self.world_size)
