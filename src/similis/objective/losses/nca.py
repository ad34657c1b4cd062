"""Neighbourhood components analysis."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from similis.objective.comparison.compare import compare
from similis.objective.references import References
from similis.objective.terms.reductions import Term, lse, present, softplus
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, check_known, register_loss

Form = Literal["prob", "ratio"]


@register_loss(
    family="pair",
    geometry="squared distance; no margin",
    input="either",
    cost=Cost(time="B^2 D", memory="B D"),
    paper="Goldberger, Roweis, Hinton, Salakhutdinov: Neighbourhood Components Analysis, NIPS 2004",
    network="linear map, 2",
    weight="S, P and N: softmax weight among all neighbours, and among those of the own class",
    relation="sets",
    memory=True,
    forms={"prob": {"form": "prob"}, "ratio": {"form": "ratio"}},
    presets={"paper": Preset({"form": "prob", "scale": 1.0, "sphere": False}, "Goldberger et al., 2004")},
    space={"scale": Range(0.1, 100.0, log=True)},
)
def nca(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    form: Form = "prob",
    scale: float = 1.0,
    sphere: bool = False,
) -> Tensor:
    r"""A sample chooses a neighbour at random, near ones more often; it should be of its own class.

    .. math::
        r_i = \log \sum_{k \in N_i} e^{-s D^2_{ik}} - \log \sum_{j \in P_i} e^{-s D^2_{ij}}, \qquad
        L_{ratio} = \operatorname{mean}_i r_i, \qquad L_{prob} = \operatorname{mean}_i \log(1 + e^{r_i})

    ``prob`` is the negative logarithm of the probability of a neighbour of the own class, since
    the sum over all k other than i is the sum over both sets. ``ratio`` leaves the own class out of the
    denominator, as ProxyNCA does; on free vectors it has no lower bound.

    Args:
        embeddings: (B, D).
        labels: (B,), or a relation (B, B).
        references: the neighbours; None for the batch.
        form: ``prob``, over anchors with positives, or ``ratio``, over anchors with both sets.
        scale: s, of the squared distance.
        sphere: unit vectors; a scale well above 1 is then needed for sharp choices.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: when nearest neighbours decide and classes may have several islands: only near
    positives are pulled.

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0], [0.0], [1.0]])
        >>> round(float(nca(x, torch.tensor([0, 0, 1]))), 6)
        0.313262
    """
    check_known("form", form, ["prob", "ratio"])
    p = compare(embeddings, labels, references, sphere=sphere)

    def chances(t: Tile) -> Term:
        return lse(-scale * t.d2)

    near, far = p.pos(chances), p.neg(chances)
    has = present(near)
    ratio = far - torch.where(has, near, 0.0)  # -inf - (-inf) would be NaN, and NaN survives a mask in backward
    if form == "prob":
        return p.mean(softplus(ratio), has)
    return p.mean(ratio, has & present(far))
