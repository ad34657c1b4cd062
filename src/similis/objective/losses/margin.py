"""Margin loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import relu

from similis.objective.batch import check_rows
from similis.objective.comparison.compare import Comparison, compare
from similis.objective.comparison.proxies import Size
from similis.objective.references import References
from similis.objective.terms.reductions import Term, count, total
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, register_loss
from similis.values import Triplets, UserError


def boundary(size: Size, *, beta: float = 1.2, per_class: bool = False, learnable: bool = True) -> Tensor | float:
    """The boundary between near and far at the start: one number, or one for each class.

    Args:
        size: number of classes, for ``per_class``.
        beta: the distance to start from.
        per_class: one boundary for each class of the anchor.
        learnable: whether it is a parameter; otherwise it stays the number that it is.
    """
    if not learnable:
        return beta
    if not per_class:
        return torch.tensor(beta)
    if size.num_classes is None:
        raise UserError("per_class=True needs the number of classes; pass num_classes= or class_ids=")
    return torch.full((size.num_classes,), beta)


@register_loss(
    family="triplet",
    geometry="distance of unit vectors",
    input="unit",
    cost=Cost(time="B^2 D", memory="B D", tuples="T + B D"),
    paper="Wu, Manmatha, Smola, Kraehenbuehl: Sampling Matters in Deep Embedding Learning, ICCV 2017",
    network="ResNet50, 128",
    weight="S: 1 for every active pair",
    learns={"beta": boundary},
    accepts="triplets",
    memory=True,
    forms={"default": {}, "per_class": {"per_class": True}, "fixed": {"learnable": False}},
    presets={
        "paper": Preset(
            {"margin_dist": 0.2, "beta": 1.2, "per_class": True}, "official code", miner="distance_weighted"
        ),
        "thesis": Preset(
            {"margin_dist": 0.5, "beta": 1.2}, "thesis, Table 4", miner="distance_weighted", lr_multiplier=0.5
        ),
    },
    space={"margin_dist": Range(0.0, 1.0, step=0.1), "beta": Range(0.5, 1.4, step=0.1)},
)
def margin(
    embeddings: Tensor,
    labels: Tensor,
    beta: Tensor | float = 1.2,
    *,
    references: References | None = None,
    tuples: Triplets | None = None,
    margin_dist: float = 0.2,
    nu: float = 0.0,
) -> Tensor:
    r"""Positives nearer than a learned boundary, negatives farther, both by a margin.

    .. math::
        \ell_{ij} = \left[ \alpha + y_{ij} (D_{ij} - \beta) \right]_+, \qquad
        L = \frac{\sum_{(a,p,n)} (\ell_{ap} + \ell_{an} + \nu \beta_a)}
                 {\#\{\ell_{ap} > 0\} + \#\{\ell_{an} > 0\}}

    with :math:`y = 1` for a positive and :math:`-1` for a negative (a 0, as it is sometimes printed,
    would leave negatives without a gradient), and D the distance of unit vectors. Without
    active pairs the loss is 0.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,); row numbers of beta if that has one value for each class.
        beta: a number, a tensor () or, indexed by the class of the anchor, (C,).
        references: columns to draw positives and negatives from; None for the batch.
        tuples: triplets of a miner; None for all of them (counted, not listed).
        margin_dist: alpha, a distance: 0.2 in the paper, 0.5 in the table of the thesis.
        nu: weight of the boundaries in use; above 0 it keeps them small.

    Shapes: embeddings (B, D), labels (B,), beta () or (C,) -> ().

    When to use: with the miner ``distance_weighted``; robust to noise because a pair is judged by
    an absolute distance, not against another pair. 1.2 is a distance: as a cosine it would be 0.28.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]])
        >>> round(float(margin(x, torch.tensor([0, 0, 1]), beta=1.2)), 4)  # 1.2 + 0.2 - sqrt(0.8)
        0.5056
    """
    p = compare(embeddings, labels, references, sphere=True)
    edge = beta.to(p.rows) if isinstance(beta, Tensor) else p.rows.new_full((), beta)  # no copy to be waited for
    edges = of_anchors(edge, labels) if edge.ndim else edge.expand(len(p.rows))
    if tuples is None:
        value, active, triplets = over_all(p, edges, margin_dist)
    else:
        edges = edges[tuples.anchors]
        value, active, triplets = over_tuples(p, tuples, edges, margin_dist)
    some = p.sum(active) > 0
    return torch.where(some, p.ratio(value + nu * (triplets * edges), active), p.sum(value))


def of_anchors(edge: Tensor, labels: Tensor) -> Tensor:
    """The boundary of each anchor's class."""
    if labels.ndim == 2:
        raise UserError("a boundary for each class needs labels, not a relation matrix; pass one beta")
    return edge[check_rows(labels.long(), len(edge))]


def over_all(p: Comparison, edges: Tensor, margin_dist: float) -> tuple[Tensor, Tensor, Tensor]:
    """Of each anchor: sum over all of its triplets, active pairs among them, number of triplets.

    A positive pair is in as many triplets as the anchor has negatives, and the other way round.
    """

    def hinges(t: Tile, edge: Tensor, sign: float) -> tuple[Term, ...]:
        value = relu(margin_dist + sign * (t.d - edge))
        return total(value), count(value > 0), count(torch.ones_like(value, dtype=torch.bool))

    near, near_active, positives = p.pos(lambda t, edge: hinges(t, edge, 1.0), rows=(edges,))
    far, far_active, negatives = p.neg(lambda t, edge: hinges(t, edge, -1.0), rows=(edges,))
    value = negatives * near + positives * far
    return value, negatives * near_active + positives * far_active, positives * negatives


def over_tuples(p: Comparison, tuples: Triplets, edges: Tensor, margin_dist: float) -> tuple[Tensor, Tensor, Tensor]:
    """Of each triplet: its value, its active pairs, and 1."""
    near = relu(margin_dist + p.at(tuples.positives, tuples.anchors).d - edges)
    far = relu(margin_dist + edges - p.at(tuples.negatives, tuples.anchors).d)
    active = (near > 0).long() + (far > 0).long()
    return near + far, active, torch.ones_like(active)
