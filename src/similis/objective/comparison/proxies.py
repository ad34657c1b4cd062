"""Proxies and class weights, which are learned: how many, how they start. The only file that makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from similis.values import UserError

Start = Literal["unit_gaussian", "kaiming_normal", "kaiming_uniform"]


class Size(NamedTuple):
    """For how many classes and dimensions a loss learns, and the generator of its start."""

    num_classes: int | None
    dim: int | None
    generator: torch.Generator


def initial_proxies(size: Size, per_class: int | None = None, start: Start = "unit_gaussian") -> Tensor:
    """Initial proxies (C, D), or (C, K, D) with ``per_class`` = K.

    Args:
        size: number of classes and dimensions.
        per_class: K vectors of each class; None for one without an axis of its own.
        start: ``unit_gaussian`` (directions uniform on the sphere), ``kaiming_normal`` (fan out,
            as ProxyAnchor's code) or ``kaiming_uniform`` (as SoftTriple's code).
    """
    if size.num_classes is None or size.dim is None:
        raise UserError(
            f"this loss learns proxies: num_classes is {size.num_classes} and dim is {size.dim}; "
            "pass both, for example num_classes=100, dim=512 (or class_ids= and dim=)"
        )
    if any(not hasattr(n, "__index__") or n < 1 for n in (size.num_classes, size.dim)):
        raise UserError(f"num_classes is {size.num_classes!r} and dim is {size.dim!r}; both are whole numbers from 1")
    if per_class is not None and per_class < 1:
        raise UserError(f"there are {per_class} vectors per class; at least 1 is needed")
    shape = (size.num_classes, size.dim) if per_class is None else (size.num_classes, per_class, size.dim)
    values = torch.empty(shape, device="cpu")  # drawn on the host: the same on every device
    rows = math.prod(shape[:-1])
    if start == "kaiming_uniform":
        bound = math.sqrt(6.0 / shape[-1])
        values.uniform_(-bound, bound, generator=size.generator)
    else:
        values.normal_(generator=size.generator)
        values = (
            values * math.sqrt(2.0 / rows) if start == "kaiming_normal" else values / values.norm(dim=-1, keepdim=True)
        )
    return values.to(torch.get_default_device())


@dataclass(frozen=True)
class OnePerClass:
    """Makes one vector for each class; a function inside a function could not be pickled with its loss."""

    start: Start

    def __call__(self, size: Size) -> Tensor:
        """Initial proxies (C, D)."""
        return initial_proxies(size, None, self.start)


def one_per_class(start: Start = "unit_gaussian") -> OnePerClass:
    """One vector for each class, for the ``learns`` of a loss."""
    return OnePerClass(start)


def check_stacked(proxies: Tensor) -> Tensor:
    """Proxies as given if there are several for each class, (C, K, D); others are refused."""
    if proxies.ndim != 3:
        raise UserError(
            f"proxies have shape {tuple(proxies.shape)}; this loss has several for each class: "
            "pass (C, K, D), with K = 1 for a single one (proxies.unsqueeze(1))"
        )
    return proxies
