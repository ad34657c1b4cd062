"""N-pair loss; batch form of Eq. 2.22 of the thesis."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from similis.objective.batch import check_labels
from similis.objective.comparison.compare import Comparison, class_numbers, compare
from similis.objective.context import has_whole_batch
from similis.objective.host_copies import on_host
from similis.objective.references import Block, References
from similis.objective.terms.distances import squares
from similis.objective.terms.reductions import count, lse, present, softplus, top, total
from similis.registry import Cost, Preset, Range, check_known, register_loss

Positives = Literal["all", "one", "pairs"]
ORDER = "the order of the batch chooses the positive of an anchor"


@register_loss(
    family="pair",
    geometry="inner product; no margin",
    input="raw",
    cost=Cost(time="B^2 D", memory="B D"),
    paper="Sohn: Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS 2016",
    network="GoogLeNet, 512",
    weight="N: softmax weight of the negative among all of the anchor and the one positive",
    relation="sets",
    memory=True,
    forms={"all": {"positives": "all"}, "one": {"positives": "one"}, "pairs": {"positives": "pairs"}},
    presets={
        "paper": Preset({"positives": "pairs", "sphere": False, "l2": 0.02}, "Sohn, 2016"),
        "thesis": Preset({"positives": "one", "sphere": True, "l2": 0.02}, "thesis, Eq. 2.22 and Table 4"),
    },
    space={"l2": Range(1e-4, 0.1, log=True)},
    exempt={
        "permutation:one": ORDER,
        "permutation:pairs": ORDER,
        "memory:pairs": "its negatives are the positives of the other pairs of the batch",
    },
)
def npair(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    positives: Positives = "all",
    l2: float = 0.02,
    sphere: bool = False,
) -> Tensor:
    r"""One positive must win a softmax over the inner products with many negatives.

    .. math::
        L = \operatorname{mean}_i \log\Big(1 + \sum_k e^{f_i \cdot f_k - f_i \cdot f_j}\Big)
          + l_2 \operatorname{mean} \lVert f \rVert^2

    with j a positive of anchor i and k its negatives. ``pairs`` is the publication: the first two
    samples of each class are anchor and positive, and k runs over the positives of the other pairs,
    so that L is the cross entropy of the rows of :math:`F F_+^\top`. In the other two every
    sample is an anchor and k runs over all its negatives: ``all`` takes the mean over j, ``one`` takes
    the next sample of the class in the batch, cyclically. Anchors that lack one of the sets are not counted.

    Args:
        embeddings: (B, D), raw: the length of the vectors is the scale of the softmax.
        labels: (B,), or a relation (B, B).
        references: columns to draw from, the batch first; None for the batch.
        positives: ``all`` (any batch, any order), ``one``, or ``pairs``.
        l2: weight of the mean squared norm of the vectors in use (``pairs``: of the pairs).
        sphere: unit vectors; then l2 adds a constant, and the loss of N pairs cannot fall below
            log(1 + (N - 1) e^(-N / (N - 1))), which is 2.6 for 36 pairs.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: raw embeddings, many classes of two samples. On the unit sphere prefer a loss with
    a temperature. ``pairs`` cannot use a memory.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> round(float(npair(x, torch.tensor([0, 0, 1, 1]), positives="pairs", l2=0.0)), 6)
        0.313262
    """
    check_known("choice of positives", positives, ["all", "one", "pairs"])
    if positives == "pairs" and references is None and labels.ndim == 1 and has_whole_batch():
        rows = pair_rows(on_host(check_labels(labels, len(embeddings)))).to(embeddings.device)
        if rows.shape[1]:
            return chosen_pairs(embeddings[rows[0]], embeddings[rows[1]], l2, sphere)
    p = compare(embeddings, labels, references, sphere=sphere)
    if positives == "pairs":
        return first_pairs(p, l2)
    far = p.neg(lambda t: lse(t.s))
    value, has = mean_over_positives(p, far) if positives == "all" else with_next_positive(p, far)
    return p.mean(value, has & present(far)) + l2 * p.mean(squares(p.rows))


def mean_over_positives(p: Comparison, far: Tensor) -> tuple[Tensor, Tensor]:
    """Mean loss of each anchor over its positives, and whether it has any."""
    value, number = p.pos(
        lambda t, f: (total(softplus(f - t.s)), count(torch.ones_like(t.s, dtype=torch.bool))), rows=(far,)
    )
    return value / number.clamp(min=1), number > 0


def with_next_positive(p: Comparison, far: Tensor) -> tuple[Tensor, Tensor]:
    """Loss of each anchor with the next sample of its class, after the last one the first again."""
    size, place = p.batch, p.places
    found = p.pos(
        lambda t, i: top(-((t.columns - i) % size).to(t.s.dtype), (t.columns < size).expand_as(t.s)),
        rows=(place,),
    )
    index = found.index[:, 0]
    return softplus(far - p.at(index.clamp(min=0)).s), index >= 0


def pair_rows(labels: Tensor) -> Tensor:
    """Row numbers (2, N) of the first two samples of each class that has two."""
    order = labels.sort(stable=True).indices
    ordered = labels[order]
    same = ordered[1:] == ordered[:-1]
    begins = torch.ones_like(labels, dtype=torch.bool)
    begins[1:] = ~same
    first = (begins[:-1] & same).nonzero()[:, 0]
    return torch.stack([order[first], order[first + 1]])


def chosen_pairs(anchors: Tensor, partners: Tensor, l2: float, sphere: bool) -> Tensor:
    """The loss of N pairs, (N, D) each: N^2 products, where masks over the batch would take B^2."""
    names = class_numbers(anchors, None)
    p = compare(anchors, names, References((Block(partners, names),)), sphere=sphere)
    value = p.mean(p.every(lambda t: lse(t.s)) - p.at(names).s)  # log(1 + sum over k of e^(s_ik - s_ii))
    return value + l2 * (squares(p.rows).mean() + squares(p.columns()[0]).mean()) / 2 if l2 else value


def first_pairs(p: Comparison, l2: float) -> Tensor:
    """The first two samples of every class as anchor and positive; masks keep the shapes fixed."""
    place = p.places
    earlier, partners = p.pos(
        lambda t, i: (count(t.columns < i), count(torch.ones_like(t.s, dtype=torch.bool))), rows=(place,)
    )
    paired = partners > 0
    second = paired & (earlier == 1)
    seconds = p.as_columns(second)
    far = p.neg(lambda t, is_second: lse(t.s, is_second), cols=(seconds,))
    partner = p.pos(lambda t, is_second: top(torch.zeros_like(t.s), is_second), cols=(seconds,)).index[:, 0]
    value = softplus(far - p.at(partner.clamp(min=0)).s)
    anchors = paired & (earlier == 0) & present(far)
    return p.mean(value, anchors) + l2 * p.mean(squares(p.rows), paired & (earlier < 2))
