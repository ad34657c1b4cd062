"""ArcFace: a margin on the angle to the own class."""

from __future__ import annotations

import math

from torch import Tensor

from similis.objective.comparison.angles import cosine_of_widened_angle, margin_in_radians
from similis.objective.comparison.compare import compare_to_classes
from similis.objective.comparison.proxies import one_per_class
from similis.objective.terms.reductions import lse, softplus
from similis.registry import Cost, Preset, Range, register_loss


@register_loss(
    family="classification",
    geometry="angle, in degrees or radians as named",
    input="unit",
    cost=Cost(time="B C D", memory="C D"),
    paper="Deng, Guo, Xue, Zafeiriou: ArcFace: Additive Angular Margin Loss for Deep Face Recognition, CVPR 2019",
    network="ResNet-100, 512",
    weight="S and N: probability of the class; the own class times sin(theta + m) / sin(theta)",
    learns={"proxies": one_per_class()},
    forms={"default": {}, "no_guard": {"guard": False, "margin_rad": 1.2}, "radians": {"margin_rad": 0.5}},
    presets={
        "paper": Preset({"scale": 64.0, "margin_deg": math.degrees(0.5)}, "official code", lr_multiplier=1.0),
        "thesis": Preset({"scale": 64.0, "margin_deg": 28.6}, "thesis, Table 4", lr_multiplier=1.0),
    },
    space={"scale": Range(2.0, 100.0, step=2.0), "margin_deg": Range(0.0, 60.0, step=5.0)},
)
def arcface(
    embeddings: Tensor,
    labels: Tensor,
    proxies: Tensor,
    *,
    scale: float = 64.0,
    margin_deg: float | None = None,
    margin_rad: float | None = None,
    guard: bool = True,
) -> Tensor:
    r"""Classification by cosines in which the angle to the own class is made larger first.

    .. math::
        L = \frac{1}{B} \sum_i \log\Big(1 + \sum_{c \ne y_i} e^{s (\cos\theta_{ic} - \cos(\theta_{i y_i} + m))}\Big)

    with :math:`\theta_{ic}` the angle of sample i and class c. Margin 0 is NormFace. The margin is
    differentiated through: the gradient of the own logit is :math:`s \sin(\theta + m) / \sin\theta`.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies.
        proxies: (C, D), put on the unit sphere here.
        scale: s, 64 in the paper.
        margin_deg: m in degrees; None for 28.6 unless ``margin_rad`` is given.
        margin_rad: m in radians; give one of the two. 28.6 degrees are 0.4992 radians.
        guard: keep the own logit falling beyond theta + m = pi, where it becomes cos(theta) - m sin(m).

    Shapes: embeddings (B, D), labels (B,), proxies (C, D) -> ().

    When to use: many classes with clean labels, faces above all; a smaller scale (16) for small data.

    Example:
        >>> import torch
        >>> x, w = torch.tensor([[0.6, 0.8]]), torch.eye(2)
        >>> round(float(arcface(x, torch.tensor([0]), proxies=w, scale=1.0, margin_deg=0.0)), 4)
        0.7981
    """
    margin = margin_in_radians(margin_deg, margin_rad)
    p = compare_to_classes(embeddings, labels, proxies, sphere=True)
    others = p.neg(lambda t: lse(scale * t.s))
    own = cosine_of_widened_angle(p.at(labels.long()).s, margin, guard)
    return p.mean(softplus(others - scale * own))
