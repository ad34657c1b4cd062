"""Smooth-AP."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.comparison.compare import compare
from similis.objective.comparison.soft_ranks import soft_ranks
from similis.objective.references import References
from similis.registry import Cost, Preset, Range, register_loss


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D + B^2 n, n positives of an anchor", memory="B D + B n^2"),
    paper="Brown, Xie, Kalogeiton, Zisserman: Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, "
    "ECCV 2020",
    network="ResNet-50, 512",
    weight="S, P and N: how much average precision an exchange of two neighbouring ranks would cost",
    relation="sets",
    memory=True,
    presets={"paper": Preset({"temperature": 0.01}, "Brown et al.")},
    space={"temperature": Range(0.001, 0.3, log=True)},
)
def smooth_ap(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    temperature: float = 0.01,
) -> Tensor:
    r"""One minus the mean average precision of the batch, its ranks counted by sigmoids.

    .. math::
        L = 1 - \operatorname*{mean}_i \frac{1}{|P_i|} \sum_{j \in P_i} \frac{r^+_{ij}}{r^+_{ij} + r^-_{ij}},
        \quad r^+_{ij} = 1 + \sum_{q \in P_i, q \ne j} \sigma\Big(\frac{S_{iq} - S_{ij}}{T}\Big),
        \quad r^-_{ij} = \sum_{n \in N_i} \sigma\Big(\frac{S_{in} - S_{ij}}{T}\Big)

    over the samples that have a positive. The query itself is in no ranking (the official code keeps
    it there, at the top). As T goes to 0 this is the exact 1 - AP if no similarities are equal.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,), or a relation (B, B).
        references: batch and memory; None for the batch.
        temperature: T of the sigmoid, in units of cosine; 0.01 in the paper.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: when the measure is average precision, with large class-balanced batches; the force
    is confined to similarities within a few T of each other, so start from a network that ranks
    better than chance.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]])  # the negative lies between the two
        >>> round(float(smooth_ap(x, torch.tensor([0, 0, 1]))), 4)
        0.5
    """
    p = compare(embeddings, labels, references, sphere=True)
    ranks = soft_ranks(p, temperature)
    precision = ranks.among_positives / (ranks.among_positives + ranks.negatives_before)
    number = ranks.real.sum(1)
    average = torch.where(ranks.real, precision, 0.0).sum(1) / number.clamp(min=1)
    return p.mean(1 - average, number > 0)
