"""The context of a loss: everything beside its options and inputs that decides how it is computed.

A frozen :class:`Context` is the only ambient thing of this package. It holds inside a ``with`` block, and a
comparison takes it along.

**Ranks.** Inside :func:`distributed` each rank calls the loss with its own rows. Its anchors are its own rows,
its references are the rows of all ranks, and sums over rows run over all of them. All ranks get the same
value. One law covers every gradient: what is differentiated is the sum over the W ranks of the values
that they call ``backward`` on, which is W times the loss, so that the mean of a parameter's gradient over the
ranks, which is what ``DistributedDataParallel`` forms, is the gradient of the loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from similis.values import Communicator


class Partition(NamedTuple):
    """Rows (or classes) that are spread over ranks: who they are, and how many rows each has."""

    communicator: Communicator
    counts: tuple[int, ...]

    @property
    def first(self) -> int:
        """Number of this rank's first row among all rows."""
        return sum(self.counts[: self.communicator.rank])

    @property
    def own(self) -> int:
        """Number of rows of this rank."""
        return self.counts[self.communicator.rank]

    @property
    def size(self) -> int:
        """Number of rows of all ranks."""
        return sum(self.counts)

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks, with gradient."""
        return self.communicator.gather(rows, self.counts)


class Tiling(NamedTuple):
    """Rows and columns of a tile; None as a tiling means one dense matrix."""

    rows: int
    columns: int

    def divide(self, depth: int) -> Tiling:
        """Smaller tiles of the same size in numbers, where a loss makes ``depth`` numbers of each similarity."""
        if depth <= 1:
            return self
        side = max(1, round(depth**0.5))
        return Tiling(max(1, self.rows // side), max(1, self.columns * side // depth))


class Drawing(Protocol):
    """A module that counts its draws."""

    draws: Tensor


def draw_number(module: Drawing) -> int:
    """The number of the next draw of a miner, which seeds its generator.

    The count is not changed in place: a state that somebody took stays as it is.
    """
    hosts = _current.get().hosts
    number = int(module.draws if hosts is None or module.draws.is_cpu else hosts.of(module.draws))
    module.draws = module.draws + 1
    return number


class HostCopies:
    """Integers of a device with their copies on the host, where plans are made from them: fetched once in a call."""

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[Tensor, Tensor]] = {}  # both are held, so that a number stays that of its tensor

    def add(self, values: Tensor, host: Tensor) -> Tensor:
        """Note values of a device that are known on the host; the values."""
        self._pairs[id(values)] = (values, host)
        return values

    def of(self, values: Tensor) -> Tensor:
        """The copy on the host; the device is waited for at the first time."""
        if id(values) not in self._pairs:
            self.add(values, values.cpu())
        return self._pairs[id(values)][1]

    def fetch(self, *values: Tensor) -> None:
        """Have the copies of several vectors or numbers made in one transfer, those that are not there yet."""
        new = [part for part in values if id(part) not in self._pairs]
        if new:
            flat = torch.cat([part.reshape(-1).long() for part in new]).cpu()
            for part, host in zip(new, torch.split(flat, [part.numel() for part in new]), strict=True):
                self.add(part, host.view(part.shape))


@dataclass(frozen=True)
class Context:
    """How losses are computed.

    Attributes:
        communicator: the ranks that share the batch; None for this process alone.
        shards: how the proxies are spread over ranks; None where every rank has all of them.
        tiling: of every comparison; None for one dense matrix, "auto" for a choice by size.
        hosts: labels and ids of a device that this call knows on the host; None on the host itself.
        counts: rows of the batch on each rank, where they were exchanged already.
    """

    communicator: Communicator | None = None
    shards: Partition | None = None
    tiling: Tiling | Literal["auto"] | None = "auto"
    hosts: HostCopies | None = None
    counts: tuple[int, ...] | None = None

    def partition(self, rows: int) -> Partition | None:
        """How the global batch is spread if this rank has that many rows of it; None when it is alone."""
        if self.communicator is None:
            return None
        return Partition(self.communicator, self.counts or self.communicator.counts(rows))


LOCAL = Context()
COMPILED = Context(tiling=None)  # a compiled graph is one process's dense matrix
_current: ContextVar[Context] = ContextVar("context", default=LOCAL)


def current_context() -> Context:
    """The context that losses are computed in here."""
    return COMPILED if torch.compiler.is_compiling() else _current.get()


def has_whole_batch() -> bool:
    """Whether a batch of labels is all there is, and a formula may look at it: no other ranks, no compiled graph."""
    return not torch.compiler.is_compiling() and _current.get().communicator is None


@contextmanager
def use_context(context: Context) -> Iterator[None]:
    """Compute losses inside in this context.

    Example:
        >>> with use_context(Context(tiling=None)):
        ...     current_context().tiling is None
        True
    """
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def distributed(communicator: Communicator | None) -> AbstractContextManager[None]:
    """Losses called inside see the batches of all ranks.

    Args:
        communicator: the ranks; None for this process alone.

    Example:
        >>> with distributed(None):
        ...     pass
    """
    return use_context(replace(_current.get(), communicator=communicator, counts=None))


def tiles(rows: int, columns: int) -> AbstractContextManager[None]:
    """Compute every loss inside in tiles of this size.

    Example:
        >>> with tiles(64, 128):
        ...     current_context().tiling.columns
        128
    """
    return use_context(replace(_current.get(), tiling=Tiling(rows, columns)))


def dense() -> AbstractContextManager[None]:
    """Compute every loss inside as one dense matrix, which second derivatives and ``torch.func`` need."""
    return use_context(replace(_current.get(), tiling=None))


def spread_evenly(rows: int, world: int) -> tuple[int, ...]:
    """Rows of each rank where none has more than one row more than another, the first ones have it.

    Example:
        >>> spread_evenly(10, 4)
        (3, 3, 2, 2)
    """
    each, left = divmod(rows, world)
    return tuple(each + (rank < left) for rank in range(world))
