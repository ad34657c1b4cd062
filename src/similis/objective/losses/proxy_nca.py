"""ProxyNCA: neighbourhood components with proxies."""

from __future__ import annotations

import math

from torch import Tensor

from similis.objective.class_shards import count_classes
from similis.objective.comparison.compare import compare_to_classes
from similis.objective.comparison.proxies import Size, initial_proxies
from similis.objective.terms.distances import angle_cosine
from similis.objective.terms.reductions import Term, lse
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, register_loss
from similis.values import UserError


def two_or_more(classes: int) -> None:
    """Refuse one class: no other proxy is left to compare with."""
    if classes < 2:
        raise UserError(f"proxy_nca compares a class with the others and there is {classes}; give it at least 2")


def class_proxies(size: Size) -> Tensor:
    """One direction for each of at least two classes, (C, D)."""
    if size.num_classes is not None:
        two_or_more(size.num_classes)
    return initial_proxies(size)


@register_loss(
    family="proxy",
    geometry="squared distance on the unit sphere",
    input="unit",
    cost=Cost(time="B C D", memory="C D"),
    paper="Movshovitz-Attias, Toshev, Leung, Ioffe, Singh: No Fuss Distance Metric Learning using Proxies, ICCV 2017",
    network="Inception (BN), 64",
    weight="N: a constant pull; softmax weight among the other proxies for the push",
    learns={"proxies": class_proxies},
    lr_multiplier=100.0,
    forms={"default": {}, "sigma": {"sigma": 3.0}, "direction": {"direction": 0.3}},
    presets={
        "paper": Preset({"sigma": 3.0}, "sigma 3 of the public code", lr_multiplier=100.0),
        "thesis": Preset({"sigma": math.sqrt(0.5)}, "thesis, Eq. 2.27 and Table 4 (1e-5)", lr_multiplier=0.1),
    },
    space={"sigma": Range(0.5, 8.0, step=0.5)},
)
def proxy_nca(
    embeddings: Tensor, labels: Tensor, proxies: Tensor, *, sigma: float = 1.0, direction: float = 0.0
) -> Tensor:
    r"""Neighbourhood components with one proxy per class; the own proxy is not among the rivals.

    .. math::
        L = \frac{1}{B} \sum_i \Big[ \sigma^2 D^2_{i y_i}
          + \log \sum_{c \ne y_i} e^{-\sigma^2 D^2_{ic} - \gamma \cos\angle(w_c - x_i,\ w_{y_i} - x_i)} \Big]

    with :math:`D^2` between unit vectors. The own proxy pulls with constant strength, so values fall
    below 0, down to :math:`-4 \sigma^2` for two opposite proxies. With :math:`\sigma^2 = 1/2` the
    exponents are cosines up to a constant that cancels (Eq. 2.27 of the thesis).

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies.
        proxies: (C, D), at least two, put on the unit sphere here.
        sigma: scale of both vectors; 1 in the equation, 3 in the public code.
        direction: gamma of direction regularisation, 0 for none; 0.3 is usual.

    Shapes: embeddings (B, D), labels (B,), proxies (C, D) -> ().

    When to use: as the first proxy loss; ``proxy_nca_pp`` and ``proxy_anchor`` learn better.

    Further reading: Mohan et al., Moving in the Right Direction, CVPR 2020 (``direction``).

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0]])
        >>> float(proxy_nca(x, torch.tensor([0]), proxies=torch.tensor([[1.0, 0.0], [-1.0, 0.0]])))
        -4.0
    """
    two_or_more(count_classes(proxies))
    p = compare_to_classes(embeddings, labels, proxies, sphere=True)
    own = p.at(labels.long())

    def rivals(t: Tile, *more: Tensor) -> Term:
        value = -(sigma**2) * t.d2
        if direction:  # the first is the similarity to the own proxy, the second proxies with the own proxy
            value = value - direction * angle_cosine(t.s, more[0], more[1])
        return lse(value)

    others = p.neg(rivals, rows=(own.s,), dots=(p.take(labels.long()),)) if direction else p.neg(rivals)
    return p.mean(others + sigma**2 * own.d2)
