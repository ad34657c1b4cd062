"""What you write a loss or a miner with.

A loss compares rows with references (:func:`compare` and its siblings), reduces a function of each tile over the
positives or negatives of a row (:func:`lse`, :func:`total`, :func:`top`), and combines the rows' values. The
same text runs as one dense matrix, in tiles and on many ranks. ``docs/adding-a-loss.md`` is the guide.

Example:
    >>> import torch
    >>> def softmax_of_pairs(embeddings, labels):
    ...     p = compare(embeddings, labels, sphere=True)
    ...     near, far = p.pos(lambda t: lse(-8 * t.s)), p.neg(lambda t: lse(8 * t.s))
    ...     return p.mean(softplus(near + far), present(near) & present(far))
    >>> softmax_of_pairs(torch.eye(4), torch.tensor([0, 0, 1, 1])).ndim
    0
"""

from __future__ import annotations

from similis.objective.class_shards import count_classes
from similis.objective.comparison.classes import compare_classes
from similis.objective.comparison.compare import Comparison, compare, compare_classes_to, compare_to_classes
from similis.objective.comparison.proxies import Size, initial_proxies, one_per_class
from similis.objective.references import Block, References, batch_references
from similis.objective.terms.distances import Geometry
from similis.objective.terms.reductions import Term, Top, count, lse, present, softplus, top, total
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, register_loss, register_miner
from similis.sphere import unit
from similis.values import Pairs, Triplets, UserError

__all__ = [
    "Block",
    "Comparison",
    "Cost",
    "Geometry",
    "Pairs",
    "Preset",
    "Range",
    "References",
    "Size",
    "Term",
    "Tile",
    "Top",
    "Triplets",
    "UserError",
    "batch_references",
    "compare",
    "compare_classes",
    "compare_classes_to",
    "compare_to_classes",
    "count",
    "count_classes",
    "initial_proxies",
    "lse",
    "one_per_class",
    "present",
    "register_loss",
    "register_miner",
    "softplus",
    "top",
    "total",
    "unit",
]
