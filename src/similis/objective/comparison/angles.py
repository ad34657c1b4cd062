"""Angular margins: their unit, and the cosine of a widened angle."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from similis.values import UserError

MARGIN_DEG = 28.6


def margin_in_radians(margin_deg: float | None, margin_rad: float | None) -> float:
    """The angular margin in radians from exactly one of its two spellings; 28.6 degrees from none."""
    if margin_deg is not None and margin_rad is not None:
        raise UserError(f"margin_deg is {margin_deg} and margin_rad is {margin_rad}; give one of them, not both")
    if margin_rad is not None:
        margin = float(margin_rad)
    else:
        margin = math.radians(MARGIN_DEG if margin_deg is None else margin_deg)
    if not 0 <= margin < math.pi:
        raise UserError(
            f"the angular margin is {margin:.4g} radians; it lies from 0 to below pi "
            "(28.6 is a number of degrees: margin_deg=28.6)"
        )
    return margin


def cosine_of_widened_angle(cosine: Tensor, margin: float, guard: bool) -> Tensor:
    r""":math:`\cos(\theta + m)` from :math:`\cos\theta`, any shape.

    Written as ``cos cos - sin sin``: the sine alone needs the cosine kept away from 1 and -1, where
    its gradient is infinite, and margin 0 gives the cosine back to the last digit. Beyond
    :math:`\theta + m = \pi` the cosine would rise again; the guard goes on falling there with
    :math:`\cos\theta - m \sin m`.
    """
    sine = (1 - cosine.clamp(-1 + 1e-7, 1 - 1e-7).square()).sqrt()
    moved = cosine * math.cos(margin) - sine * math.sin(margin)
    if not guard:
        return moved
    turned = cosine < -math.cos(margin)
    return torch.where(turned, cosine - margin * math.sin(margin), moved)
