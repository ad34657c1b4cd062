"""A loss over ranks: whose batches it sees, what they agree on before a call, and the gradients of what it learns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.context import current_context, distributed, use_context
from similis.objective.terms.gradients import average_gradients
from similis.registry import find_communicator
from similis.values import Communicator, UserError


class Ranks(NamedTuple):
    """The process group whose batches a loss sees; None for that of all processes."""

    group: object

    def find(self) -> Communicator | None:
        """Its ranks; None where this process is alone."""
        if torch.compiler.is_compiling():
            raise UserError("a loss with distributed=True exchanges rows with other ranks; compile the network alone")
        return find_communicator(self.group)


def join_ranks(ranks: Ranks | None) -> AbstractContextManager[None]:
    """Inside, losses see the batches of these ranks, unless a context has named others."""
    if ranks is None or current_context().communicator is not None:
        return nullcontext()
    return distributed(ranks.find())


@contextmanager
def share_batch(
    name: str, embeddings: Tensor, learned: Mapping[str, Tensor], *, sharded: bool
) -> Iterator[Mapping[str, Tensor]]:
    """Inside, the ranks know how many rows each has; gives what the loss learns, with gradients averaged over ranks.

    Args:
        name: of the loss, which must be the same on every rank.
        embeddings: (B, D) of this rank.
        learned: what the loss learns.
        sharded: whether vectors among it are this rank's share, whose gradient is complete.
    """
    context = current_context()
    assert context.communicator is not None
    call = f"{name} of {tuple(embeddings.shape[1:])} {embeddings.dtype}".replace("torch.", "")
    counts = context.communicator.counts(len(embeddings), call)
    shared = {key: value for key, value in learned.items() if not sharded or value.ndim <= 1}
    with use_context(replace(context, counts=counts)):
        yield {**learned, **average_gradients(shared, context.communicator)}
