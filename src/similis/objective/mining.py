"""Miners by name, their draws, and mining on many ranks: the tuples of the global batch, each at its anchor's rank."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from similis.objective.comparison.compare import compare
from similis.objective.context import Partition, dense
from similis.objective.references import References
from similis.registry import LossEntry, miners
from similis.sphere import full_precision
from similis.values import Pairs, Triplets, UserError

Found = Pairs | Triplets
Miner = Callable[..., Found]


def miner(name: str) -> Miner:
    """A miner by name: (similarity, positive, negative) -> pairs or triplets.

    Example:
        >>> import torch
        >>> same = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
        >>> miner("all_pairs")(torch.eye(3), same & ~torch.eye(3, dtype=torch.bool), ~same).counts().tuples
        6
    """
    function: Miner = miners.get(name).function
    return function


def mine_tuples(
    miner: Miner, embeddings: Tensor, labels: Tensor, references: References | None, draw: tuple[int, int]
) -> Found:
    """What a miner finds for the anchors of this rank; ``draw`` is the seed and the number of the draw."""
    with torch.no_grad(), dense(), full_precision(embeddings):
        p = compare(embeddings, labels, references, sphere=True)
        parts = [
            (p.rows @ vectors.T, block.members("pos", p.row_labels), block.members("neg", p.row_labels))
            for vectors, block in zip(p.columns(), p.references, strict=True)
        ]
        similarity, positive, negative = (torch.cat([part[i] for part in parts], 1) for i in range(3))  # type: ignore[misc]
        given = {"generator": make_generator(*draw), "dim": embeddings.shape[1]}
        mine = partial(miner, **{key: given[key] for key in requested_arguments(miner)})
        joint = p.references.joint
        if mines_single_rows(miner):
            return mine_rows(mine, similarity, positive, negative, joint)
        if joint is not None and any(block.private for block in p.references):
            raise UserError(
                "this miner compares the rows of all ranks, and ranks differ in columns if each query has negatives of "
                "its own; pass negatives of shape (N, D), or use another miner"
            )
        if joint is None:
            return mine(similarity, positive, negative)
        # one anchor's choice may depend on another's: every rank mines the whole matrix with the same generator
        whole = (joint.gather(part) for part in (similarity, positive, negative))
        return select_own_tuples(mine(*whole), joint)


def mines_single_rows(miner: Callable[..., Found]) -> bool:
    """Whether a miner is known to look at one row at a time; nothing is known of functions from outside."""
    return any(entry.function is miner and not entry.joint for entry in miners)


def mine_rows(
    mine: Callable[..., Found], similarity: Tensor, positive: Tensor, negative: Tensor, joint: Partition | None
) -> Found:
    """What a miner of single rows finds for this rank's anchors; draws know a row's number in the global batch."""
    numbered = joint is not None and "first" in inspect.signature(mine).parameters
    return mine(similarity, positive, negative, **({"first": joint.first} if joint and numbered else {}))


def check_call(entry: LossEntry, labels: Tensor, references: References | None, tuples: object) -> None:
    """Raise where a loss has no meaning for a relation, a memory or mined tuples."""
    if labels.ndim == 2 and entry.relation == "none":
        raise UserError(f"{entry.name} has no meaning for a relation matrix; pass labels of shape (B,)")
    if references is not None and len(references.blocks) > 1 and not entry.memory:
        raise UserError(f"{entry.name} cannot use a memory: its references are not samples; drop the memory")
    if tuples is None:
        return
    if entry.accepts is None:
        raise UserError(f"{entry.name} takes no mined tuples; call it without tuples=")
    if not isinstance(tuples, Pairs | Triplets):
        raise UserError(
            f"tuples are a {type(tuples).__name__}; give Triplets(anchors, positives, negatives) or Pairs(...) of "
            "similis.formula"
        )


def check_found(found: object, entry: LossEntry) -> None:
    """Refuse what a miner returned if it is not what the loss takes."""
    wanted = Triplets if entry.accepts == "triplets" else Pairs
    if not isinstance(found, wanted):
        raise UserError(f"the miner returned {type(found).__name__}; {entry.name} takes {wanted.__name__}(...)")


def select_own_tuples(found: Found, joint: Partition) -> Found:
    """The tuples whose anchor is a row of this rank, anchors numbered from its first row."""

    def own(anchors: Tensor, *columns: Tensor) -> tuple[Tensor, ...]:
        here = (anchors >= joint.first) & (anchors < joint.first + joint.own)
        return (anchors[here] - joint.first, *(column[here] for column in columns))

    if isinstance(found, Triplets):
        return Triplets(*own(*found))
    return Pairs(*own(found.positive_anchors, found.positives), *own(found.negative_anchors, found.negatives))


def make_generator(seed: int, call: int) -> torch.Generator:
    """A generator for one call of a miner; all numbers are mixed, for torch looks at 32 bits of a seed only."""
    mixed = np.random.SeedSequence([seed % 2**64, call]).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0]))


def requested_arguments(miner: Miner) -> list[str]:
    """Which of ``generator`` and ``dim`` a miner has as an argument that nobody has set yet."""
    known = inspect.signature(miner).parameters
    return [
        key for key in ("generator", "dim") if key in known and known[key].default in (None, inspect.Parameter.empty)
    ]


def resolve_miner(entry: LossEntry, miner: str | Miner | None) -> Miner | None:
    """The miner by name, or the function given; raises if its tuples are not those that the loss takes."""
    if miner is None:
        return None
    found = miners.get(miner) if isinstance(miner, str) else None
    if entry.accepts is None or (found.returns != entry.accepts if found else not callable(miner)):
        fitting = ", ".join(m.name for m in miners if m.returns == entry.accepts)
        allowed = f"{fitting}, or a function (similarity, positive, negative)" if fitting else "none; leave it out"
        raise UserError(f"{entry.name} cannot use the miner {miner!r}; it can use: {allowed}")
    return miner if found is None else found.function  # type: ignore[return-value]
