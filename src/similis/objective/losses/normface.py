"""NormFace: softmax of scaled cosines."""

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
    paper="Wang, Xiang, Cheng, Yuille: NormFace: L2 Hypersphere Embedding for Face Verification, ACM Multimedia 2017",
    network="ResNet-28, 512",
    weight="S and N: probability of the class, minus 1 for the own class",
    learns={"proxies": one_per_class()},
    presets={
        "paper": Preset({"scale": 20.0}, "temperature 0.05 (Zhai and Wu 2019)", lr_multiplier=1.0),
        "thesis": Preset({"scale": 20.0}, "thesis, Eq. 2.25", lr_multiplier=1.0),
    },
    space={"scale": Range(2.0, 100.0, step=2.0)},
)
def normface(embeddings: Tensor, labels: Tensor, proxies: Tensor, *, scale: float = 20.0) -> Tensor:
    r"""Classification by cosines: samples and class weights lie on the unit sphere.

    .. math::
        L = \frac{1}{B} \sum_i \Big[ \log \sum_c e^{s \cos(w_c, x_i)} - s \cos(w_{y_i}, x_i) \Big]

    Cosines are bounded, so the loss has a floor, :math:`\log(1 + (C-1) e^{-s C/(C-1)})`: 3.6 for
    100 classes at s = 1, nothing to speak of from s = 16 on.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies.
        proxies: (C, D), put on the unit sphere here.
        scale: s, the inverse of a temperature; 16 to 64 are usual.

    Shapes: embeddings (B, D), labels (B,), proxies (C, D) -> ().

    When to use: a strong and simple baseline whenever the classes are known; ArcFace, CosFace,
    SoftTriple and ProxyNCA++ are this loss with one thing added.

    Further reading: Zhai and Wu, Classification is a Strong Baseline for Deep Metric Learning, BMVC 2019.

    Example:
        >>> import torch
        >>> round(float(normface(torch.eye(2), torch.tensor([0, 1]), proxies=torch.eye(2), scale=1.0)), 4)
        0.3133
    """
    p = compare_to_classes(embeddings, labels, proxies, sphere=True)
    others = p.neg(lambda t: lse(scale * t.s))
    return p.mean(softplus(others - scale * p.at(labels.long()).s))
