"""From a map of features (B, F, h, w) to one vector (B, F)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


def gap(features: Tensor) -> Tensor:
    """Global average pooling: the mean over all places, (B, F, h, w) -> (B, F).

    Example:
        >>> gap(torch.tensor([[[[1.0, 3.0]]]])).tolist()
        [[2.0]]
    """
    return features.mean((2, 3))


def gmp(features: Tensor) -> Tensor:
    """Global max pooling: the largest over all places, (B, F, h, w) -> (B, F); the first of equals gets the gradient.

    Example:
        >>> gmp(torch.tensor([[[[1.0, 3.0]]]])).tolist()
        [[3.0]]
    """
    return functional.adaptive_max_pool2d(features, 1).flatten(1)


def gap_gmp(features: Tensor) -> Tensor:
    """Sum of average and max pooling, as in ProxyAnchor's code, (B, F, h, w) -> (B, F).

    Example:
        >>> gap_gmp(torch.tensor([[[[1.0, 3.0]]]])).tolist()
        [[5.0]]
    """
    return gap(features) + gmp(features)


def gem(features: Tensor, power: Tensor) -> Tensor:
    r"""Generalised mean: :math:`(\frac{1}{hw} \sum \max(x, 10^{-6})^p)^{1/p}`, (B, F, h, w) -> (B, F).

    p = 1 is the average of the positive part, a large p nears the maximum.
    Radenovic, Tolias, Chum: Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019.

    Args:
        features: (B, F, h, w); half precision is widened, for powers leave its range.
        power: p, one learned number, above 0.

    Example:
        >>> round(float(gem(torch.tensor([[[[1.0, 3.0]]]]), torch.tensor(2.0))), 4)
        2.2361
    """
    with torch.autocast(features.device.type, enabled=False):
        wide = features.float() if features.dtype in (torch.float16, torch.bfloat16) else features
        return wide.clamp(min=1e-6).pow(power).mean((2, 3)).pow(1.0 / power)


POOLINGS: dict[str, Callable[..., Tensor]] = {"gap": gap, "gmp": gmp, "gap+gmp": gap_gmp, "gem": gem}
OWN = "own"  # the pooling that the network was published with, see Backbone.pool
START_POWER = 3.0  # the value of the paper


class Pooling(nn.Module):
    """A pooling by name; ``gem`` learns its power, the others learn nothing.

    Args:
        kind: ``gap``, ``gmp``, ``gap+gmp`` or ``gem``.

    Example:
        >>> Pooling("gap+gmp")(torch.ones(2, 5, 3, 3)).shape
        torch.Size([2, 5])
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.power = nn.Parameter(torch.tensor(START_POWER)) if kind == "gem" else None

    def forward(self, features: Tensor) -> Tensor:
        """(B, F, h, w) -> (B, F)."""
        function = POOLINGS[self.kind]
        return function(features) if self.power is None else function(features, self.power)
