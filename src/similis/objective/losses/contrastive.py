"""Contrastive loss; cosine form of Eq. 2.15 of the thesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import relu

from similis.objective.comparison.compare import Comparison, compare
from similis.objective.references import References
from similis.objective.terms.distances import Similarities
from similis.objective.terms.reductions import Term, total
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, check_known, register_loss
from similis.values import Pairs, UserError

PairGeometry = Literal["cosine", "euclid2", "hadsell", "euclid"]
Reduction = Literal["active", "balanced", "mean", "anchor", "sum"]
MARGINS = {"cosine": 0.5, "euclid2": 1.0, "hadsell": 1.0, "euclid": 0.5}
REDUCTIONS = ("active", "balanced", "mean", "anchor", "sum")
PairFunction = Callable[[Similarities], Tensor]


class Half(NamedTuple):
    """Of the positive or of the negative pairs: sum of values, of weights, of weights of active pairs."""

    value: Tensor
    weight: Tensor
    active: Tensor


@register_loss(
    family="pair",
    geometry="margin in the geometry named: cosine, euclid2 (squared distance), hadsell and euclid (distance)",
    input="either",
    cost=Cost(time="B^2 D", memory="B D", tuples="T + B D"),
    paper="Hadsell, Chopra, LeCun: Dimensionality Reduction by Learning an Invariant Mapping, CVPR 2006",
    network="siamese convolutional network, 2",
    weight="S: 1 for every positive and every active negative (cosine)",
    accepts="pairs",
    relation="graded",
    memory=True,
    forms={geometry: {"geometry": geometry} for geometry in MARGINS},
    presets={
        "paper": Preset({"geometry": "hadsell", "margin": 1.0}, "Hadsell et al., 2006"),
        "thesis": Preset({"geometry": "cosine", "margin": 0.5}, "thesis, Table 4"),
    },
    space={"margin": Range(0.0, 1.0, step=0.1)},
)
def contrastive(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    tuples: Pairs | None = None,
    geometry: PairGeometry = "cosine",
    margin: float | None = None,
    sphere: bool | None = None,
    reduction: Reduction | None = None,
    offset: bool = False,
) -> Tensor:
    r"""Positive pairs are drawn together, negative pairs pushed apart until they pass a threshold.

    .. math::
        \text{same class, different class:} \quad
        -S,\ [S - m]_+ \;|\; D^2,\ [m - D^2]_+ \;|\; D^2/2,\ [m - D]_+^2/2 \;|\; D,\ [m - D]_+

    for the geometries ``cosine``, ``euclid2`` (the survey), ``hadsell`` (the publication) and
    ``euclid`` (the code of the thesis), with S the cosine and D the distance of a pair.

    Every unordered pair counts once; a relation's grades are the weights of its positives.

    Values below 0 are expected of the cosine form, the default: a perfect batch has the value -1. ``offset=True``
    adds 1 to each positive, so that curves end at 0, and leaves gradients alone.

    Args:
        embeddings: (B, D).
        labels: (B,), or a relation (B, B) with grades.
        references: columns to form pairs with; None for the batch.
        tuples: pairs of a miner, each counted as often as it is listed; None for all pairs.
        geometry: pair function and geometry of the margin.
        margin: m; None for 0.5 (cosine, euclid) or 1 (euclid2, hadsell).
        sphere: unit vectors; None for yes with cosine and euclid, no with euclid2 and hadsell.
        reduction: ``balanced`` is the mean of the positives plus the mean of the negatives, ``active``
            the same over pairs with a value above 0 (cosine: positives are never left out),
            ``mean`` runs over all pairs, ``anchor`` is the sum over B, ``sum`` the sum; None for
            ``active`` with cosine and euclid, ``mean`` with euclid2 and hadsell.
        offset: positives of the cosine form as 1 - S, for curves that end at 0.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: a robust first try with class-balanced batches and no miner. ``euclid2`` has no
    force between coincident negatives; ``hadsell`` has its largest there.

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
        >>> float(contrastive(x, torch.tensor([0, 0, 1]), geometry="euclid2", margin=4.0, reduction="sum"))
        6.0
    """
    check_known("geometry", geometry, MARGINS)
    on_sphere = geometry in ("cosine", "euclid") if sphere is None else sphere
    if geometry == "cosine" and not on_sphere:
        raise UserError("sphere=False has no meaning for cosines; use sphere=True or another geometry")
    pull, push = pair_functions(geometry, MARGINS[geometry] if margin is None else margin, offset)
    p = compare(embeddings, labels, references, sphere=on_sphere)
    if tuples is None:
        halves = over_all(p, pull, push, hinged=geometry != "cosine")
    else:
        grades = labels[tuples.positive_anchors, tuples.positives] if labels.ndim == 2 else None
        halves = over_tuples(p, tuples, grades, pull, push, hinged=geometry != "cosine")
    default: Reduction = "active" if geometry in ("cosine", "euclid") else "mean"
    return reduce_pairs(p, *halves, default if reduction is None else reduction)


def pair_functions(geometry: PairGeometry, margin: float, offset: bool) -> tuple[PairFunction, PairFunction]:
    """The value of a positive and of a negative pair."""
    if geometry == "cosine":
        return (lambda t: float(offset) - t.s), (lambda t: relu(t.s - margin))
    if geometry == "euclid2":
        return (lambda t: t.d2), (lambda t: relu(margin - t.d2))
    if geometry == "hadsell":
        return (lambda t: t.d2 / 2), (lambda t: relu(margin - t.d).square() / 2)
    return (lambda t: t.d), (lambda t: relu(margin - t.d))


def over_all(p: Comparison, pull: PairFunction, push: PairFunction, *, hinged: bool) -> tuple[Half, Half]:
    """Both halves over every pair; ``hinged`` says that positives of value 0 are inactive."""

    def half(t: Tile, value: Tensor, grade: Tensor | float, filtered: bool) -> tuple[Term, ...]:
        weight = (value.new_ones((1, 1)) * (t.once * grade)).expand_as(value)
        # of a value that is never negative the sign tells whether it is active, in one pass
        return total(value * weight), total(weight), total(value.detach().sign() * weight if filtered else weight)

    return (
        Half(*p.pos(lambda t: half(t, pull(t), t.grade, hinged))),
        Half(*p.neg(lambda t: half(t, push(t), 1.0, True))),
    )


def over_tuples(
    p: Comparison, tuples: Pairs, grades: Tensor | None, pull: PairFunction, push: PairFunction, *, hinged: bool
) -> tuple[Half, Half]:
    """Both halves over a miner's pairs, summed because there may be more of one kind than of the other."""

    def half(value: Tensor, grade: Tensor | None, filtered: bool) -> Half:
        weight = torch.ones_like(value) if grade is None else grade.to(value.dtype)
        active = torch.where(value > 0, weight, 0.0) if filtered else weight
        return Half((value * weight).sum(), weight.sum(), active.sum())

    return (
        half(pull(p.at(tuples.positives, tuples.positive_anchors)), grades, hinged),
        half(push(p.at(tuples.negatives, tuples.negative_anchors)), None, True),
    )


def reduce_pairs(p: Comparison, near: Half, far: Half, reduction: Reduction) -> Tensor:
    """The two halves as one number."""
    check_known("reduction", reduction, REDUCTIONS)
    if reduction == "mean":
        return p.ratio(near.value + far.value, near.weight + far.weight)
    if reduction == "balanced":
        return p.ratio(near.value, near.weight) + p.ratio(far.value, far.weight)
    if reduction == "active":
        return p.ratio(near.value, near.active) + p.ratio(far.value, far.active)
    everything = p.sum(near.value) + p.sum(far.value)
    return everything if reduction == "sum" else everything / p.sum(torch.ones_like(p.rows[:, 0]))
