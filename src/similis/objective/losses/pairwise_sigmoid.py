"""The pairwise sigmoid loss of SigLIP."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.comparison.compare import compare
from similis.objective.comparison.log_scale import bound_scale, initial_log_scale
from similis.objective.comparison.proxies import Size
from similis.objective.references import References
from similis.objective.terms.reductions import softplus, total
from similis.registry import Cost, Preset, Range, register_loss


def initial_scale(size: Size, *, temperature: float = 0.1) -> Tensor | float:
    """The learned logarithm of the scale at the start."""
    return initial_log_scale(size, temperature=temperature, learnable=True)


def initial_bias(size: Size, *, start_bias: float = -10.0) -> Tensor:  # noqa: ARG001
    """The learned bias at the start: most pairs are negatives."""
    return torch.tensor(start_bias)


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D", memory="B D"),
    paper="Zhai, Mustafa, Kolesnikov, Beyer: Sigmoid Loss for Language Image Pre-Training, ICCV 2023",
    network="ViT-B/16 and a text transformer, 768",
    weight="S: sigmoid of the pair alone",
    learns={"log_scale": initial_scale, "bias": initial_bias},
    relation="sets",
    memory=True,
    presets={"paper": Preset({"temperature": 0.1, "start_bias": -10.0}, "Zhai et al., section 3.1")},
    space={"temperature": Range(0.02, 1.0, log=True), "start_bias": Range(-20.0, 0.0, step=1.0)},
)
def pairwise_sigmoid(
    embeddings: Tensor,
    labels: Tensor,
    log_scale: Tensor | float = 2.302585,
    bias: Tensor | float = -10.0,
    *,
    references: References | None = None,
    max_scale: float | None = None,
) -> Tensor:
    r"""Binary cross-entropy of every pair: does this document belong to this query?

    .. math::
        L = \frac{1}{B} \sum_i \Big( \sum_{j \in P_i} \log(1 + e^{-(\tau S_{ij} + b)})
          + \sum_{k \in N_i} \log(1 + e^{\tau S_{ik} + b}) \Big)

    with the scale :math:`\tau` and the bias b learned. Without documents the batch is compared with itself.

    Args:
        embeddings: (B, D) queries, put on the unit sphere here.
        labels: (B,), or a relation (B, B) where the batch is compared with itself.
        log_scale: log of the scale, a number or a learned ().
        bias: b, a number or a learned ().
        references: documents and hard negatives; None for the batch. The module builds them of ``documents=``.
        max_scale: bound of the scale; None for none, as in SigLIP, whose published scales pass 100.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: pairs of two kinds in batches too small for a good softmax, or several right documents for a
    query: a pair's gradient does not depend on the rest of the batch.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> round(float(pairwise_sigmoid(x, torch.tensor([0, 0]), log_scale=0.0, bias=-1.0)), 4)  # log 2
        0.6931
    """
    p = compare(embeddings, labels, references, sphere=True)
    scale = bound_scale(log_scale, max_scale, p.rows)
    values = [
        (v.to(p.rows) if isinstance(v, Tensor) else p.rows.new_full((), v)).expand(len(p.rows)) for v in (scale, bias)
    ]
    pull = p.pos(lambda t, k, b: total(softplus(-(k * t.s + b))), rows=values)
    return p.mean(pull + p.neg(lambda t, k, b: total(softplus(k * t.s + b)), rows=values))
