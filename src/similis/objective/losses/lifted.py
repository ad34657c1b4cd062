"""Lifted structured loss; Eq. 2.21 of the thesis."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import relu

from similis.objective.comparison.compare import Comparison, compare
from similis.objective.references import References
from similis.objective.terms.reductions import Term, count, lse, present, top, total
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, check_known, register_loss
from similis.values import UserError

Form = Literal["song", "thesis", "generalised", "deepmetric"]
MARGINS = {"song": 1.0, "thesis": 0.5, "generalised": 1.0, "deepmetric": None}
# Stands for the log of an empty sum where two of them meet: log(0 + 0) has no finite derivative.
# Everything is float32 or wider here, and nothing but a hinge follows.
FLOOR = -1e30


@register_loss(
    family="pair",
    geometry="margin a distance (song, generalised) or a cosine (thesis); deepmetric has none",
    input="either",
    cost=Cost(time="B^2 D", memory="B D"),
    paper="Song, Xiang, Jegelka, Savarese: Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016",
    network="GoogLeNet, 64 to 1024",
    weight="N: softmax weight among the negatives of the anchor (song: of both ends)",
    relation="sets",
    memory=True,
    forms={form: {"form": form} for form in MARGINS},
    presets={
        "paper": Preset({"form": "song", "margin": 1.0}, "official Caffe layer"),
        "thesis": Preset({"form": "thesis", "margin": 0.5}, "thesis, Eq. 2.21 and Table 4"),
    },
    space={"margin": Range(0.0, 1.0, step=0.1)},
    exempt={"memory:song": "a pair needs the negatives of both of its ends, and a memory row has none"},
)
def lifted(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    form: Form = "song",
    margin: float | None = None,
    sphere: bool | None = None,
    epsilon_cos: float = 0.1,
    pull_scale: float = 2.0,
    push_scale: float = 40.0,
) -> Tensor:
    r"""Every positive pair competes with all negatives at once, the nearest of them most.

    .. math::
        L_{song} = \frac{1}{2 |P|} \sum_{(i,j) \in P} \Big[ D_{ij} + \log\Big(
            \sum_{k \in N_i} e^{m - D_{ik}} + \sum_{l \in N_j} e^{m - D_{jl}} \Big) \Big]_+^2

    over the unordered positive pairs P. The others are means over anchors:
    ``generalised`` :math:`[\operatorname{lse}_{P_i}(D) + \operatorname{lse}_{N_i}(m - D)]_+`,
    ``thesis`` :math:`[\operatorname{lse}_{P_i}(m - S) + \operatorname{lse}_{N_i}(S)]_+`, both over
    anchors that have both sets, and ``deepmetric``, what the public code of the thesis computes:
    :math:`\frac{2}{a} \operatorname{lse}(-a S_{ip}) + \frac{2}{b} \operatorname{lse}(b S_{in})` over the
    pairs that multi-similarity mining keeps, without hinge and margin, divided by B.

    Args:
        embeddings: (B, D).
        labels: (B,), or a relation (B, B).
        references: columns to draw from; None for the batch. ``song`` takes no memory.
        form: which of the four.
        margin: m; None for 1 (song, generalised: a distance) or 0.5 (thesis: a cosine).
        sphere: unit vectors; None for no with song and generalised, yes with the cosine forms.
        epsilon_cos: slack of the mining of ``deepmetric``, a cosine.
        pull_scale: a of ``deepmetric``.
        push_scale: b of ``deepmetric``.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: class-balanced batches without a miner; ``generalised`` for batches with many
    positives per anchor, ``deepmetric`` to compare with the tables of the thesis.

    Further reading: Hermans, Beyer, Leibe, In Defense of the Triplet Loss for Person Re-Identification, 2017
    (``generalised``).

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0], [0.0], [1.0]])
        >>> round(float(lifted(x, torch.tensor([0, 0, 1]))), 6)  # (log 2)^2 / 2
        0.240227
    """
    check_known("form", form, MARGINS)
    if form == "deepmetric" and margin is not None:
        raise UserError(f"margin is {margin}, but form='deepmetric' has no margin; leave it out or use form='thesis'")
    cosine = form in ("thesis", "deepmetric")
    on_sphere = cosine if sphere is None else sphere
    if cosine and not on_sphere:
        raise UserError(f"sphere=False has no meaning for the cosines of form={form!r}; use song or generalised")
    p = compare(embeddings, labels, references, sphere=on_sphere)
    m = MARGINS[form] if margin is None else margin
    if m is None:
        return mine_without_margin(p, epsilon_cos, pull_scale, push_scale)
    if form == "song":
        return over_pairs(p, m)
    near = p.pos(lambda t: lse(m - t.s if cosine else t.d))
    far = p.neg(lambda t: lse(t.s if cosine else m - t.d))
    return p.mean(relu(near + far), present(near) & present(far))


def over_pairs(p: Comparison, margin: float) -> Tensor:
    """The original: both ends of a positive pair bring their negatives."""
    far = p.neg(lambda t: lse(margin - t.d)).clamp(min=FLOOR)

    def pair(t: Tile, of_row: Tensor, of_column: Tensor) -> tuple[Term, Term]:
        value = relu(t.d + torch.logaddexp(of_row, of_column)).square()
        return total(value), count(torch.ones_like(value, dtype=torch.bool))

    # Each pair comes twice, as (i, j) and as (j, i), in the sum and in the number of pairs.
    value, number = p.pos(pair, rows=(far,), cols=(p.as_columns(far),))
    return p.ratio(value, number) / 2


def mine_without_margin(p: Comparison, epsilon_cos: float, pull_scale: float, push_scale: float) -> Tensor:
    """Two log-sum-exps over mined pairs; anchors that keep nothing count as 0 in the mean."""
    farthest = -p.pos(lambda t: top(-t.s)).values[:, 0]
    nearest = p.neg(lambda t: top(t.s)).values[:, 0]
    pull = p.pos(lambda t, near: lse(-pull_scale * t.s, ~(t.s >= near + epsilon_cos)), rows=(nearest,))
    push = p.neg(lambda t, far: lse(push_scale * t.s, ~(t.s <= far - epsilon_cos)), rows=(farthest,))
    kept = present(pull) & present(push)
    return p.mean(torch.where(kept, 2 / pull_scale * pull + 2 / push_scale * push, 0.0))
