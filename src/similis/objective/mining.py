"""Mining among many processes: the tuples of one process on the joined batch, each at its anchor's owner."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from torch import Tensor

from similis.objective.context import Partition
from similis.registry import miners
from similis.values import Pairs, Triplets

Found = Pairs | Triplets


def each_row(miner: Callable[..., Found]) -> bool:
    """Whether a miner is known to look at one row at a time; nothing is known of functions from outside."""
    return any(entry.function is miner and not entry.joint for entry in miners)


def row_by_row(
    mine: Callable[..., Found], similarity: Tensor, positive: Tensor, negative: Tensor, joint: Partition | None
) -> Found:
    """What a miner of single rows finds for the anchors of this process; draws know the row's joined number."""
    numbered = joint is not None and "first" in inspect.signature(mine).parameters
    return mine(similarity, positive, negative, **({"first": joint.first} if joint and numbered else {}))


def mined_jointly(
    mine: Callable[..., Found],
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    joint: Partition | None,
) -> Found:
    """What a miner finds for the anchors of this process when it looks at those of all processes.

    Such a miner may let one anchor's choice depend on another's. So every process mines the whole matrix
    with the same generator and keeps the tuples of its own anchors.

    Args:
        mine: (similarity, positive, negative) -> tuples.
        similarity: (B, M), rows of this process.
        positive: (B, M).
        negative: (B, M).
        joint: how the rows are divided; None if they are all here.
    """
    if joint is None:
        return mine(similarity, positive, negative)
    return own_tuples(mine(joint.gather(similarity), joint.gather(positive), joint.gather(negative)), joint)


def own_tuples(found: Found, joint: Partition) -> Found:
    """The tuples whose anchor is a row of this process, anchors numbered from its first row."""

    def own(anchors: Tensor, *columns: Tensor) -> tuple[Tensor, ...]:
        here = (anchors >= joint.first) & (anchors < joint.first + joint.own)
        return (anchors[here] - joint.first, *(column[here] for column in columns))

    if isinstance(found, Triplets):
        return Triplets(*own(*found))
    return Pairs(*own(found.positive_anchors, found.positives), *own(found.negative_anchors, found.negatives))
