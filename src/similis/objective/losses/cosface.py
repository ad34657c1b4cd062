"""CosFace: a margin on the cosine of the own class."""

from __future__ import annotations

from torch import Tensor

from similis.objective.comparison.compare import compare_to_classes
from similis.objective.comparison.proxies import one_per_class
from similis.objective.terms.reductions import lse, softplus
from similis.registry import Cost, Preset, Range, register_loss


@register_loss(
    family="classification",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B C D", memory="C D"),
    paper="Wang, Wang, Zhou, Ji, Gong, Zhou, Li, Liu: CosFace: Large Margin Cosine Loss, CVPR 2018",
    network="64-layer ResNet, 512",
    weight="S and N: probability of the class, minus 1 for the own class",
    learns={"proxies": one_per_class()},
    presets={"paper": Preset({"scale": 64.0, "margin_cos": 0.35}, "CosFace, section 4", lr_multiplier=1.0)},
    space={"scale": Range(2.0, 100.0, step=2.0), "margin_cos": Range(0.0, 1.0, step=0.05)},
)
def cosface(
    embeddings: Tensor, labels: Tensor, proxies: Tensor, *, scale: float = 64.0, margin_cos: float = 0.35
) -> Tensor:
    r"""Classification by cosines in which the own class starts with a handicap.

    .. math::
        L = \frac{1}{B} \sum_i \log\Big(1 + \sum_{c \ne y_i} e^{s (S_{ic} - S_{i y_i} + m)}\Big)

    with :math:`S_{ic}` the cosine of sample i and class c. Margin 0 is NormFace.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies.
        proxies: (C, D), put on the unit sphere here.
        scale: s, 64 in the paper.
        margin_cos: m, a cosine, 0.35 in the paper.

    Shapes: embeddings (B, D), labels (B,), proxies (C, D) -> ().

    When to use: like ArcFace, with a gradient that stays finite for perfectly aligned samples.

    Example:
        >>> import torch
        >>> round(float(cosface(torch.eye(2), torch.tensor([0, 1]), proxies=torch.eye(2), scale=1.0)), 3)
        0.42
    """
    p = compare_to_classes(embeddings, labels, proxies, sphere=True)
    others = p.neg(lambda t: lse(scale * t.s))
    return p.mean(softplus(others - scale * (p.at(labels.long()).s - margin_cos)))
