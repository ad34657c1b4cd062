"""Multi-similarity loss."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.comparison.compare import Comparison, compare
from similis.objective.references import References
from similis.objective.terms.distances import angle_cosine
from similis.objective.terms.reductions import lse, softplus, top
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, register_loss
from similis.values import Pairs

Keep = tuple[Tensor, ...]


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D", memory="B D", tuples="B^2 + B D"),
    paper="Wang, Han, Huang, Dong, Scott: Multi-Similarity Loss with General Pair Weighting, CVPR 2019",
    network="BN-Inception, 512",
    weight="S, P and N: softmax weight among the mined pairs of the anchor",
    accepts="pairs",
    relation="sets",
    memory=True,
    forms={"default": {}, "unmined": {"mined": False}, "direction": {"direction": 0.3}},
    presets={
        "paper": Preset({"alpha": 2.0, "beta": 50.0, "base_cos": 0.5, "epsilon_cos": 0.1}, "official code"),
        "thesis": Preset({"alpha": 2.0, "beta": 50.0, "base_cos": 0.5, "epsilon_cos": 0.1}, "thesis, Table 4"),
        "thesis_tuned": Preset({"alpha": 18.0, "beta": 76.0, "base_cos": 0.8, "epsilon_cos": 0.4}, "thesis, Table 15"),
    },
    space={
        "alpha": Range(2.0, 100.0, step=2.0),
        "beta": Range(2.0, 100.0, step=2.0),
        "base_cos": Range(0.0, 1.0, step=0.1),
        "epsilon_cos": Range(0.0, 1.0, step=0.1),
    },
)
def multi_similarity(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    tuples: Pairs | None = None,
    alpha: float = 2.0,
    beta: float = 50.0,
    base_cos: float = 0.5,
    epsilon_cos: float = 0.1,
    mined: bool = True,
    direction: float = 0.0,
) -> Tensor:
    r"""Pairs weigh by their own similarity and by that of the anchor's other pairs, hard ones most.

    .. math::
        L = \frac{1}{B} \sum_i \Big\{
            \frac{1}{\alpha} \log\Big(1 + \sum_{p} e^{-\alpha (S_{ip} - \lambda)}\Big)
          + \frac{1}{\beta} \log\Big(1 + \sum_{n} e^{\beta (S_{in} - \lambda - \gamma \cos\angle(n - i, h - i))}\Big)
          \Big\}

    over the positives p with :math:`S_{ip} < \max_n S_{in} + \epsilon` and the negatives n with
    :math:`S_{in} > \min_p S_{ip} - \epsilon`; h is the least similar positive of i. Anchors that keep
    nothing count as 0.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,), or a relation (B, B).
        references: columns to draw from; None for the batch.
        tuples: pairs of a miner instead of the mining inside; each counts once.
        alpha: scale of positives, 2 in the paper.
        beta: scale of negatives, 50 in the paper (40 is the default of the official code).
        base_cos: lambda, a cosine: 0.5 in the official code, 1 in the text of the paper.
        epsilon_cos: epsilon, a cosine.
        mined: whether pairs are mined; without, each anchor uses all of its pairs.
        direction: gamma of direction regularisation, 0.3 to 0.5 in the paper; 0 for none.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: pairs without proxies, in class-balanced batches of five images each.

    Further reading: Mohan et al., Moving in the Right Direction, CVPR 2020 (``direction``).

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.5, 0.75**0.5]])  # the cosine is lambda
        >>> round(float(multi_similarity(x, torch.tensor([0, 0]), mined=False)), 6)  # log 2 / alpha
        0.346574
    """
    p = compare(embeddings, labels, references, sphere=True)
    hardest = p.pos(lambda t: top(-t.s))
    keep_pull, keep_push = kept_pairs(p, tuples, -hardest.values[:, 0], epsilon_cos, mined)
    pull = p.pos(lambda t, *keep: lse(-alpha * (t.s - base_cos), kept(t, *keep, above=False)), rows=keep_pull)
    if direction:
        index = hardest.index[:, 0].clamp(min=0)
        gamma = direction * (hardest.index[:, 0] >= 0).to(p.rows.dtype)  # without a positive there is no direction
        push = p.neg(
            lambda t, near, gamma, *more: lse(
                beta * (t.s - base_cos - gamma * angle_cosine(t.s, near, more[-1])), kept(t, *more[:-1], above=True)
            ),
            rows=(p.at(index).s, gamma, *keep_push),
            dots=(p.take(index),),
        )
    else:
        push = p.neg(lambda t, *keep: lse(beta * (t.s - base_cos), kept(t, *keep, above=True)), rows=keep_push)
    return p.mean(softplus(pull) / alpha + softplus(push) / beta)


def kept_pairs(
    p: Comparison, tuples: Pairs | None, farthest: Tensor, epsilon_cos: float, mined: bool
) -> tuple[Keep, Keep]:
    """What tells the pairs that stay, of positives and of negatives: a bound (r,), a table (r, M) or nothing."""
    if tuples is not None:
        return (
            (table(p, tuples.positive_anchors, tuples.positives),),
            (table(p, tuples.negative_anchors, tuples.negatives),),
        )
    if not mined:
        return (), ()
    nearest = p.neg(lambda t: top(t.s)).values[:, 0]
    return (nearest + epsilon_cos,), (farthest - epsilon_cos,)


def table(p: Comparison, anchors: Tensor, columns: Tensor) -> Tensor:
    """Pairs as a table (r, M)."""
    chosen = torch.zeros(len(p.rows), len(p.references), dtype=torch.bool, device=p.rows.device)
    chosen[anchors, columns] = True
    return chosen


def kept(t: Tile, *keep: Tensor, above: bool) -> Tensor | None:
    """The pairs of a tile that stay: above or below a bound, or those of a table."""
    if not keep:
        return None
    if keep[0].dtype == torch.bool:
        return keep[0][:, 0, t.columns[0]]
    return ~(t.s <= keep[0]) if above else ~(t.s >= keep[0])  # a NaN stays, or it would vanish from the loss
