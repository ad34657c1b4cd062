"""What many processes cost: bytes that each hands to the collectives in one step, and memory that each needs."""

from __future__ import annotations

from typing import Literal, NamedTuple

from similis.values import UserError

Kind = Literal["pairs", "classes", "class_anchors", "divided_classes"]
KINDS = ("pairs", "classes", "class_anchors", "divided_classes")
WHOLE = 8  # bytes of a label or of a count


class Traffic(NamedTuple):
    """Bytes that one process hands over in one step of a loss, forward and backward together.

    A ring moves (W - 1) times ``gather`` and (W - 1) / W times ``scatter`` through each link.
    """

    gather: int
    scatter: int


def traffic(kind: Kind, *, counts: tuple[int, ...], dim: int, number_bytes: int = 4, reductions: int = 1) -> Traffic:
    r"""Bytes of the exchanges that grow with the batch; sums of single numbers come on top.

    With b the rows of the largest part, W processes, B rows in all, s bytes of a number and r
    log-sum-exps of a row:

    .. math::
        \text{gather} = 16 + b (D s + 8) \; [+ \; r B s], \qquad \text{scatter} = W b D s \; [+ \; r W B s]

    (in brackets: divided classes). Samples against classes that every process has whole exchange the two
    numbers of every call (rows, and which call it is). None of it grows with the number of classes.

    Args:
        kind: ``pairs`` (samples with samples), ``classes`` (samples with whole classes),
            ``class_anchors`` (ProxyAnchor), ``divided_classes`` (softmax with a share of the classes).
        counts: rows of each process.
        dim: embedding size D.
        number_bytes: s, of one coordinate.
        reductions: r, for divided classes.

    Example:
        >>> traffic("pairs", counts=(4, 4), dim=2)
        Traffic(gather=80, scatter=64)
    """
    if kind not in KINDS:
        raise UserError(f"kind is {kind!r}; choose one of {', '.join(KINDS)}")
    if kind == "classes":
        return Traffic(2 * WHOLE, 0)
    world, rows, batch = len(counts), max(counts), sum(counts)
    gather, scatter = 2 * WHOLE + rows * (dim * number_bytes + WHOLE), world * rows * dim * number_bytes
    if kind == "divided_classes":
        partial = reductions * batch * number_bytes
        return Traffic(gather + partial, scatter + world * partial)
    return Traffic(gather, scatter)


class Memory(NamedTuple):
    """Bytes of one process: class vectors with gradient and moments, rows of the joined batch, one tile."""

    classes: int
    batch: int
    tile: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


def memory(
    *, batch: int, dim: int, world: int, classes: int = 0, number_bytes: int = 4, moments: int = 2, tile: int = 2**19
) -> Memory:
    """The plan of memory for a loss in tiles with divided classes; the network is not in it.

    Class vectors count once for the weights, once for the gradient and ``moments`` times for the
    optimiser; the joined batch counts once as gathered, once on the sphere and once as its gradient;
    a tile counts four times (similarities, their function, its gradient, a mask).

    Args:
        batch: rows of all processes.
        dim: embedding size.
        world: number of processes.
        classes: of all processes; 0 for a loss without class vectors.
        number_bytes: of one coordinate.
        moments: tensors that the optimiser keeps for each weight; 2 for Adam.
        tile: numbers of one tile.

    Example:
        >>> plan = memory(batch=2**20, dim=512, world=8, classes=10_000_000)
        >>> round(plan.classes / 2**30, 1), round(plan.batch / 2**30, 1)
        (9.5, 6.0)
    """
    share = -(-classes // world)
    return Memory(
        classes=share * dim * number_bytes * (2 + moments),
        batch=3 * batch * dim * number_bytes,
        tile=4 * tile * number_bytes,
    )
