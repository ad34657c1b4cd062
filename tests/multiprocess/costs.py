"""What many processes cost: bytes that each hands to the collectives in one step."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["pairs", "classes", "class_anchors", "divided_classes"]
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
    if kind == "classes":
        return Traffic(2 * WHOLE, 0)
    world, rows, batch = len(counts), max(counts), sum(counts)
    gather, scatter = 2 * WHOLE + rows * (dim * number_bytes + WHOLE), world * rows * dim * number_bytes
    if kind == "divided_classes":
        partial = reductions * batch * number_bytes
        return Traffic(gather + partial, scatter + world * partial)
    return Traffic(gather, scatter)
