"""Vectors on the unit sphere, whatever their length: the norm of a vector neither overflows nor underflows.

The square of 1e20 is beyond float32, and that of 1e-30 is 0. Vectors of such lengths are multiplied by a power of
two before their norm is taken. Powers of two are exact, so the result is that of ordinary lengths bit by bit.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

NOTHING = nullcontext()
# of a type: up to which norm squares are safe, and the exponent of its largest number
LIMITS = {torch.float64: (2.0**384, 1024), torch.float32: (2.0**48, 128)}


def full_precision(values: Tensor) -> AbstractContextManager[Any]:
    """No autocast inside; nothing is entered where there is none, which saves microseconds of every small step."""
    kind = values.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else NOTHING


def widen(vectors: Tensor) -> Tensor:
    """Half precision becomes float32: exponents of 35 and more are ordinary in these losses."""
    return vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors


def unit(vectors: Tensor) -> Tensor:
    """Vectors (..., D) divided by their norms, in at least float32.

    A vector shorter than 2^-112 (2^-896 in float64) has no direction: it becomes 0, with gradient 0. One that
    is not finite becomes NaN.

    Example:
        >>> unit(torch.tensor([[3e20, 4e20], [3e-30, 4e-30], [0.0, 0.0]])).tolist()[0]
        [0.6000000238418579, 0.800000011920929]
    """
    wide = widen(vectors).view_as(vectors)  # gradients of both uses are added here, as in the other branch
    if wide.is_cpu and wide.numel() and not torch.compiler.is_compiling():  # elsewhere a look at values costs
        size: Tensor = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        if are_ordinary(size):
            return wide / size
    scaled, _ = rescale(wide)
    return scaled / scaled_norms(scaled)


def are_ordinary(size: Tensor) -> bool:
    """Whether squares of vectors with these norms stay in the type's range."""
    limit = LIMITS[size.dtype][0]
    low, high = torch.aminmax(size.detach())
    try:
        return 1 / limit <= low.item() and high.item() <= limit
    except RuntimeError:  # torch.func.vmap: a batch of answers
        return False


def norms(vectors: Tensor) -> Tensor:
    """Norms (..., 1) of at least float32; infinite for a vector without direction, so that dividing by it gives 0."""
    scaled, power = rescale(widen(vectors))
    return scaled_norms(scaled) / power


def rescale(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors times a power of two, and that power (..., 1): 1 unless their squares leave the range of the type."""
    limit, reach = LIMITS[vectors.dtype]
    size = torch.linalg.vector_norm(vectors.detach(), dim=-1, keepdim=True)
    raised = torch.where(size < 1 / limit, 2.0 ** (reach // 2), torch.ones_like(size))
    power = torch.where(size > limit, limit**-2, raised)
    return vectors * power, power


def scaled_norms(scaled: Tensor) -> Tensor:
    """Norms (..., 1) of vectors from :func:`rescale`; infinite for those without direction."""
    size: Tensor = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return size.masked_fill(size < 1 / LIMITS[scaled.dtype][0], math.inf)
