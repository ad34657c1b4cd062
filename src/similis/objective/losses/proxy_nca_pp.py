"""ProxyNCA++: the probability form of ProxyNCA with a temperature."""

from __future__ import annotations

from torch import Tensor

from similis.objective.comparison.compare import compare_to_classes
from similis.objective.comparison.proxies import one_per_class
from similis.objective.terms.reductions import lse, softplus
from similis.registry import Cost, Preset, Range, register_loss
from similis.values import UserError


@register_loss(
    family="proxy",
    geometry="squared distance on the unit sphere",
    input="unit",
    cost=Cost(time="B C D", memory="C D"),
    paper="Teh, DeVries, Taylor: ProxyNCA++: Revisiting and Revitalizing Proxy NCA, ECCV 2020",
    network="ResNet-50, 2048",
    weight="S and N: probability of the class, minus 1 for the own class",
    sampler="balanced",
    learns={"proxies": one_per_class()},
    lr_multiplier=100.0,
    presets={"paper": Preset({"temperature": 1 / 9}, "official code, whose rate of 1e5 needs Adam with eps = 1")},
    space={"temperature": Range(0.01, 1.0, log=True)},
)
def proxy_nca_pp(embeddings: Tensor, labels: Tensor, proxies: Tensor, *, temperature: float = 1 / 9) -> Tensor:
    r"""The probability of the own proxy among all proxies, sharpened by a temperature.

    .. math::
        L = -\frac{1}{B} \sum_i \log \frac{e^{-D^2_{i y_i} / T}}{\sum_c e^{-D^2_{ic} / T}}

    with :math:`D^2` between unit vectors. It is NormFace with scale 2/T, and at T = 1 the softplus of
    each sample's ProxyNCA. The temperature divides inside the exponent: outside it would cancel.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies.
        proxies: (C, D), put on the unit sphere here.
        temperature: T, 1/9 in the official code (both vectors scaled by 3).

    Shapes: embeddings (B, D), labels (B,), proxies (C, D) -> ().

    When to use: fine-grained retrieval with class-balanced batches and fast proxies; the preset's
    rate for the proxies (100,000 times the network's) belongs to Adam with eps = 1.0 only.

    Example:
        >>> import torch
        >>> round(float(proxy_nca_pp(torch.eye(2), torch.tensor([0, 1]), proxies=torch.eye(2), temperature=2.0)), 4)
        0.3133
    """
    if temperature <= 0:
        raise UserError(f"temperature is {temperature}; it divides and must be above 0 (1/9 in the paper)")
    p = compare_to_classes(embeddings, labels, proxies, sphere=True)
    others = p.neg(lambda t: lse(-t.d2 / temperature))
    return p.mean(softplus(others + p.at(labels.long()).d2 / temperature))
