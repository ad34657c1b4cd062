"""Recall@k surrogate."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.comparison.compare import compare
from similis.objective.comparison.soft_ranks import soft_ranks
from similis.objective.references import References
from similis.registry import Cost, Preset, Range, register_loss
from similis.values import UserError


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D + B^2 n, n positives of an anchor", memory="B D + B n^2"),
    paper="Patel, Tolias, Matas: Recall@k Surrogate Loss with Large Batches and Similarity Mixup, CVPR 2022",
    network="ResNet-50, 512",
    weight="S, P and N: how much the recall would change if the pair moved by one rank",
    relation="sets",
    memory=True,
    presets={
        "paper": Preset({"ks": (1, 2, 4, 8, 16), "rank_temperature": 1.0, "temperature": 0.01}, "Patel et al."),
    },
    space={"temperature": Range(0.001, 0.3, log=True), "rank_temperature": Range(0.1, 10.0, log=True)},
)
def recall_at_k(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    ks: tuple[int, ...] = (1, 2, 4, 8, 16),
    rank_temperature: float = 1.0,
    temperature: float = 0.01,
) -> Tensor:
    r"""One minus recall at several k, with sigmoids for "ranked before" and for "within the first k".

    .. math::
        L = 1 - \operatorname*{mean}_{i, k} \frac{\sum_{j \in P_i} \sigma\big((k - r_{ij}) / T_1\big)}{\min(k, |P_i|)},
        \qquad r_{ij} = 1 + \sum_{z \ne i, j} \sigma\Big(\frac{S_{iz} - S_{ij}}{T_2}\Big)

    over the samples that have a positive. A positive at rank k counts one half, so the value has no
    floor at 0: it is a force, not a measurement, and can be negative for large k.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,), or a relation (B, B).
        references: batch and memory; None for the batch.
        ks: the numbers of neighbours, each at least 1.
        rank_temperature: T1, in units of ranks; 1 in the paper.
        temperature: T2, in units of cosine; 0.01 in the paper.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: when the measure is recall at k, with the largest batches that fit (the paper uses
    thousands of images with gradient caching).

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]])  # both positives at rank 2
        >>> round(float(recall_at_k(x, torch.tensor([0, 0, 1]), ks=(2,))), 4)
        0.5
    """
    if not ks or min(ks) < 1:
        raise UserError(f"ks is {ks}; pass at least one number of neighbours, each 1 or more, for example (1, 2, 4)")
    p = compare(embeddings, labels, references, sphere=True)
    ranks = soft_ranks(p, temperature)
    rank = ranks.among_positives + ranks.negatives_before
    number = ranks.real.sum(1)
    recall = torch.zeros_like(rank[:, :1].sum(1))
    for k in ks:
        within = torch.where(ranks.real, torch.sigmoid((k - rank) / rank_temperature), 0.0).sum(1)
        recall = recall + within / number.clamp(min=1, max=k)
    return p.mean(1 - recall / len(ks), number > 0)
