"""Triplet loss; cosine form of Eq. 2.17 of the thesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import relu

from similis.objective.backends.protocol import Hinges
from similis.objective.comparison.compare import Comparison, compare
from similis.objective.references import References
from similis.objective.terms.distances import Geometry, Similarities, angle_cosine
from similis.objective.terms.reductions import Term, count, softplus, total
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, register_loss
from similis.values import Triplets, UserError

Reduction = Literal["active", "mean", "sum"]
Excess = Callable[[Similarities, Similarities, Tensor | None], Tensor]
MARGINS = {"cosine": 0.1, "euclid2": 0.2, "euclid": 0.1}


@register_loss(
    family="triplet",
    geometry="margin in the geometry named: cosine, euclid2 (squared distance), euclid (distance)",
    input="either",
    cost=Cost(
        time="B^2 D + B^2 log n, n positives of an anchor (smooth or with direction: n instead of log n)",
        memory="B D",
        tuples="T + B D",
    ),
    paper="Schroff, Kalenichenko, Philbin: FaceNet: A Unified Embedding for Face Recognition and Clustering, CVPR 2015",
    network="Inception (NN2), 128",
    weight="P: the number of active triplets that use the pair",
    accepts="triplets",
    relation="sets",
    memory=True,
    forms={
        "cosine": {"geometry": "cosine"},
        "euclid2": {"geometry": "euclid2"},
        "euclid": {"geometry": "euclid"},
        "smooth": {"smooth": True},
        "direction": {"geometry": "euclid2", "sphere": True, "direction": 0.3},
    },
    presets={
        "paper": Preset({"geometry": "euclid2", "margin": 0.2, "sphere": True}, "FaceNet", miner="semi_hard"),
        "thesis": Preset({"geometry": "cosine", "margin": 0.1}, "thesis, Table 4", miner="semi_hard"),
    },
    space={"margin": Range(0.0, 1.0, step=0.1)},
)
def triplet(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    tuples: Triplets | None = None,
    geometry: Geometry = "cosine",
    margin: float | None = None,
    smooth: bool = False,
    sphere: bool | None = None,
    reduction: Reduction = "active",
    direction: float = 0.0,
) -> Tensor:
    r"""A positive must be nearer to the anchor than a negative, by a margin.

    .. math::
        L = \sum_{(a, p, n)} \left[ f_{ap} - f_{an} + \alpha - \gamma \cos\angle(n - a, p - a) \right]_+

    where f grows with distance: :math:`-S` (``cosine``), :math:`D^2` (``euclid2``) or :math:`D`
    (``euclid``). On unit vectors ``euclid2`` with margin 2a is twice ``cosine`` with margin a.

    Args:
        embeddings: (B, D).
        labels: (B,), or a relation (B, B).
        references: columns to draw positives and negatives from; None for the batch.
        tuples: triplets of a miner; None for all of them.
        geometry: what the margin is measured in.
        margin: alpha; None for 0.1 (cosine, euclid) or 0.2 (euclid2).
        smooth: softplus in place of the hinge.
        sphere: unit vectors; None for yes with cosine and euclid, no with euclid2.
        reduction: mean over the ``active`` triplets (value above 0), ``mean`` over all, or ``sum``.
        direction: gamma of direction regularisation; needs unit vectors; 0 for none.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: with a miner (``semi_hard``, ``distance_weighted``) and class-balanced batches; most
    triplets of a trained network are satisfied and silent.

    Further reading: Mohan et al., Moving in the Right Direction, CVPR 2020 (``direction``).

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
        >>> float(triplet(x, torch.tensor([0, 0, 1]), geometry="euclid2", margin=2.0, reduction="sum"))
        3.0
    """
    on_sphere = (geometry != "euclid2") if sphere is None else sphere
    if (direction or geometry == "cosine") and not on_sphere:
        raise UserError("sphere=False has no meaning for cosines and for direction; use sphere=True or euclid2")
    alpha = MARGINS[geometry] if margin is None else margin
    p = compare(embeddings, labels, references, sphere=on_sphere)

    def excess(near: Similarities, far: Similarities, np: Tensor | None) -> Tensor:
        value = near.far(geometry) - far.far(geometry) + alpha
        if np is not None:
            value = value - direction * angle_cosine(far.s, near.s, np)
        return softplus(value) if smooth else relu(value)

    if tuples is not None:
        return over_tuples(p, tuples, excess, reduction, bool(direction))
    found = None if smooth or direction else p.hinges(geometry, alpha)
    hinges = over_triplets(p, excess, directed=bool(direction)) if found is None else found
    return reduce_triplets(p, *hinges, reduction)


def over_triplets(p: Comparison, excess: Excess, *, directed: bool) -> Hinges:
    """Any function of a triplet, summed over all triplets of each anchor: time and memory r M n.

    Args:
        p: anchors and references.
        excess: (anchor with positive, anchor with negative, product of both if ``directed``) -> values.
        directed: whether the function needs the product of positive and negative.
    """
    index, real = p.positives()
    near = p.at(index)
    norms = () if near.norms is None else (near.norms,)

    def every_triplet(t: Tile, s: Tensor, ok: Tensor, *more: Tensor) -> tuple[Term, ...]:
        own = Similarities(s, more[0] if norms else None)
        far = Similarities(t.s[..., None], None if t.norms is None else t.norms[..., None])
        value = excess(own, far, more[-1] if directed else None)
        ok = ok.expand_as(value)
        return total(value, ok), count(ok), count(ok & (value > 0))

    found = p.neg(every_triplet, rows=(near.s, real, *norms), dots=(p.take(index),) if directed else ())
    return Hinges(*(x.sum(1) for x in found))


def over_tuples(p: Comparison, tuples: Triplets, excess: Excess, reduction: Reduction, directed: bool) -> Tensor:
    """The loss over a miner's triplets."""
    near, far = p.at(tuples.positives, tuples.anchors), p.at(tuples.negatives, tuples.anchors)
    np = p.between(tuples.positives, tuples.negatives) if directed else None
    value = excess(near, far, np)
    return reduce_triplets(p, value, torch.ones_like(value, dtype=torch.bool), value > 0, reduction)


def reduce_triplets(p: Comparison, value: Tensor, number: Tensor, active: Tensor, reduction: Reduction) -> Tensor:
    """Sum, mean over all or mean over the active tuples."""
    if reduction == "sum":
        return p.sum(value)
    return p.ratio(value, active if reduction == "active" else number)
