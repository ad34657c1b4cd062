"""Sub-centre ArcFace: several centres per class."""

from __future__ import annotations

import math

from torch import Tensor

from similis.objective.comparison.angles import cosine_of_widened_angle, margin_in_radians
from similis.objective.comparison.compare import compare_to_classes
from similis.objective.comparison.proxies import Size, check_stacked, initial_proxies
from similis.objective.terms.reductions import lse, softplus
from similis.registry import Cost, Preset, Range, register_loss


def class_centers(size: Size, *, centers: int = 3) -> Tensor:
    """K directions for each class, (C, K, D)."""
    return initial_proxies(size, centers)


@register_loss(
    family="classification",
    geometry="angle, in degrees or radians as named",
    input="unit",
    cost=Cost(time="B C K D", memory="C K D"),
    paper="Deng, Guo, Liu, Gong, Zafeiriou: Sub-center ArcFace, ECCV 2020",
    network="ResNet-50, 512",
    weight="S and N: probability of the class, on its nearest centre alone",
    learns={"proxies": class_centers},
    presets={
        "paper": Preset(
            {"scale": 64.0, "margin_deg": math.degrees(0.5), "centers": 3}, "paper, section 4", lr_multiplier=1.0
        )
    },
    space={"scale": Range(2.0, 100.0, step=2.0), "margin_deg": Range(0.0, 60.0, step=5.0)},
)
def subcenter_arcface(
    embeddings: Tensor,
    labels: Tensor,
    proxies: Tensor,
    *,
    scale: float = 64.0,
    margin_deg: float | None = None,
    margin_rad: float | None = None,
    guard: bool = True,
) -> Tensor:
    r"""ArcFace in which a class is as near as the nearest of its K centres.

    .. math::
        \cos\theta_{ic} = \max_k \cos(w_{ck}, x_i), \qquad
        L = \frac{1}{B} \sum_i \log\Big(1 + \sum_{c \ne y_i} e^{s (\cos\theta_{ic} - \cos(\theta_{i y_i} + m))}\Big)

    One centre per class is ArcFace. Centres at the same cosine share the gradient equally.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies.
        proxies: (C, K, D), put on the unit sphere here.
        scale: s, 64 in the paper.
        margin_deg: m in degrees; None for 28.6 unless ``margin_rad`` is given.
        margin_rad: m in radians; give one of the two.
        guard: keep the own logit falling beyond theta + m = pi.

    Shapes: embeddings (B, D), labels (B,), proxies (C, K, D) -> ().

    When to use: noisy labels or classes of several looks; wrong labels gather at the minor centres.

    Example:
        >>> import torch
        >>> x, w = torch.tensor([[0.6, 0.8]]), torch.eye(2).unsqueeze(1)
        >>> round(float(subcenter_arcface(x, torch.tensor([0]), proxies=w, scale=1.0, margin_deg=0.0)), 4)
        0.7981
    """
    margin = margin_in_radians(margin_deg, margin_rad)
    p = compare_to_classes(embeddings, labels, check_stacked(proxies), sphere=True)
    others = p.neg(lambda t: lse(scale * t.s.amax(-1)))
    own = cosine_of_widened_angle(p.at(labels.long()).s.amax(-1), margin, guard)
    return p.mean(softplus(others - scale * own))
