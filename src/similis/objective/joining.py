"""Many processes, one batch: every loss inside ``joined`` is the loss of the batches of all of them.

Each process calls the loss with its own rows. Its anchors are its own rows, its references are the
rows of all processes, and sums over rows run over all of them. All processes get the same value.

One law covers every gradient. What is differentiated is the sum over the W processes of the values
that they call ``backward`` on, which is W times the loss, so that the mean of a parameter's gradient
over the processes, which is what ``DistributedDataParallel`` forms, is the gradient of the loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.objective.within import within
from similis.values import Communicator, UserError


class Joint(NamedTuple):
    """Rows (or classes) that are divided over processes: who they are, and how many rows each has."""

    communicator: Communicator
    counts: tuple[int, ...]

    @property
    def first(self) -> int:
        """Number of this process's first row among all rows."""
        return sum(self.counts[: self.communicator.rank])

    @property
    def own(self) -> int:
        """Number of rows of this process."""
        return self.counts[self.communicator.rank]

    @property
    def size(self) -> int:
        """Number of rows of all processes."""
        return sum(self.counts)

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all processes, with gradient."""
        return self.communicator.gather(rows, self.counts)


_batches: ContextVar[Communicator | None] = ContextVar("batches", default=None)
_passing: ContextVar[bool] = ContextVar("passing", default=False)
_classes: ContextVar[Joint | None] = ContextVar("classes", default=None)


@contextmanager
def joined(communicator: Communicator | None, *, streamed: bool = False) -> Iterator[None]:
    """Losses called inside see the batches of all processes; None for this one alone.

    Args:
        communicator: the processes.
        streamed: the rows of the others are passed round, a tile at a time and in each reduction anew, and never
            gathered: less memory for more traffic. What cannot do without all rows at once is refused.

    Example:
        >>> from similis.objective.joining import joined
        >>> with joined(None):
        ...     pass
    """
    with within(_batches, communicator), within(_passing, streamed):
        yield


@contextmanager
def divided(classes: Joint | None) -> Iterator[None]:
    """Class vectors inside are this process's share of them; None for all of them."""
    with within(_classes, classes):
        yield


def communicator_here() -> Communicator | None:
    """Who shares the batch with this process; None when it is alone, and inside a compiled graph."""
    return None if torch.compiler.is_compiling() else _batches.get()


def classes_here() -> Joint | None:
    """How the class vectors are divided over processes; None when every process has all of them."""
    return None if torch.compiler.is_compiling() else _classes.get()


def passed_round() -> bool:
    """Whether rows of other processes are passed round and not gathered."""
    return communicator_here() is not None and _passing.get()


def refuse_passing(what: str) -> None:
    """Refuse what needs the rows of all processes at once where they are passed round."""
    if passed_round():
        raise UserError(f"{what} the rows of all processes at once; use joined(communicator) without streamed=True")


def joint_of(rows: int) -> Joint | None:
    """How the joined batch is divided if this process has that many rows of it; None when it is alone."""
    communicator = communicator_here()
    return None if communicator is None else Joint(communicator, communicator.counts(rows))


def batch_size(rows: int) -> int:
    """Rows of the joined batch if this process has that many of them."""
    joint = joint_of(rows)
    return rows if joint is None else joint.size


def number_of_classes(proxies: Tensor) -> int:
    """Classes of all processes that these class vectors are a share of."""
    classes = classes_here()
    return len(proxies) if classes is None else classes.size


def over_classes(value: Tensor) -> Tensor:
    """A sum over class vectors as the sum over those of all processes."""
    classes = classes_here()
    return value if classes is None else classes.communicator.sum(value)


def scaled_gradient(value: Tensor, factor: float) -> Tensor:
    """The value as it is, with its gradient times a factor."""
    scaled: Tensor = _Scaled.apply(value, factor)  # type: ignore[no-untyped-call]
    return scaled


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None


def shares(rows: int, world: int) -> tuple[int, ...]:
    """Rows of each process where none has more than one row more than another, the first ones have it.

    Example:
        >>> shares(10, 4)
        (3, 3, 2, 2)
    """
    each, left = divmod(rows, world)
    return tuple(each + (rank < left) for rank in range(world))
