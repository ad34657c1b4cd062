"""Weights and vectors with fewer bits on the disk: float16, or int8 with a scale for each row.

Arithmetic stays float32. Rounding twice is rounding once, so a rounded network is saved without a further loss.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from similis.registry import check_known
from similis.values import DataError, UserError

PRECISIONS = ("float32", "float16", "int8")
SCALE = "scale/"  # before the name of a tensor: the scales of its rows
LEVELS = 127
SPARE_BITS = 8  # of a scale's mantissa are 0: seven bits times the other sixteen are exact in float32


def check_precision(precision: str) -> None:
    """Raise for an unknown name."""
    check_known("precision", precision, PRECISIONS)


def narrow(tensors: Mapping[str, Tensor], precision: str) -> dict[str, Tensor]:
    """Tensors as they are stored; only matrices and filters are narrowed, for the rest is small.

    Example:
        >>> small = narrow({"w": torch.tensor([[1.0, -0.25]])}, "int8")
        >>> small["w"].tolist(), widen_all(small)["w"].dtype
        ([[127, -32]], torch.float32)
    """
    check_precision(precision)
    found = dict(tensors)
    large = {name: value for name, value in tensors.items() if value.ndim >= 2 and value.is_floating_point()}
    if precision == "float16":
        found |= {name: value.half() for name, value in large.items()}
    elif precision == "int8":
        for name, value in large.items():
            found[SCALE + name] = row_scales(value)
            found[name] = (value / found[SCALE + name]).round().to(torch.int8)
    return found


def row_scales(value: Tensor) -> Tensor:
    """The step between levels (R, 1, ...) of each row of (R, ...), rounded up to the bits that keep products exact."""
    size = value.float().abs().flatten(1).amax(1) / LEVELS
    bits = ((size.view(torch.int32) + (2**SPARE_BITS - 1)) >> SPARE_BITS) << SPARE_BITS
    scale: Tensor = bits.view(torch.float32).clamp(min=torch.finfo(torch.float32).tiny)
    return scale.view(-1, *[1] * (value.ndim - 1))


def widen_all(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Stored tensors as float32 again."""
    found: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if name.startswith(SCALE):
            continue
        found[name] = value.float() if value.dtype in (torch.float16, torch.int8) else value
        scale = tensors.get(SCALE + name)
        if (value.dtype == torch.int8) != (scale is not None):
            raise DataError(f"{name!r} is {value.dtype} {'without' if scale is None else 'with'} scales")
        if scale is not None:
            if scale.dtype != torch.float32 or scale.shape != (len(value), *[1] * (value.ndim - 1)):
                raise DataError(f"{name!r} has shape {tuple(value.shape)}, and its scales {tuple(scale.shape)}")
            found[name] *= scale
    return found


def round_weights(network: nn.Module, precision: str) -> None:
    """Give a network the weights that it will have when it was stored with this precision and read again."""
    rounded = widen_all(narrow(network.state_dict(), precision))
    lost = [name for name, value in rounded.items() if not value.isfinite().all()]
    if lost:
        raise UserError(f"{lost[0]} has values beyond the range of {precision}; choose int8 or float32")
    network.load_state_dict(rounded)
