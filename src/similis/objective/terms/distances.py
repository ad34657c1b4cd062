"""Similarities and distances: the only file that knows their signs and their rounding.

On the unit sphere ``d2 = 2 - 2 s`` and ``d = sqrt(2 - 2 s)``. A cosine of 0.5 is a distance of 1; a distance
of 0.5 is a cosine of 0.875. So every margin names its geometry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from similis.registry import unknown
from similis.values import UserError

Geometry = Literal["cosine", "euclid2", "euclid"]
GEOMETRIES = ("cosine", "euclid2", "euclid")

# Products of equal vectors differ from their squared norms by a few units in the last place.
# What lies below this many of them is a distance of zero, not one of 1e-4 with a random direction.
ROUNDING_UNITS = 8.0
TF32_NOISE = 2.0**-10  # where factors of a product keep 10 bits: a bound, not a few units


def allows_tf32() -> bool:
    """Whether an accelerator may round the factors of float32 products, as this program has set it."""
    matmul = torch.backends.cuda.matmul
    try:
        return bool(matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32)
    except RuntimeError:  # PyTorch itself does not know: it was told by two of its interfaces
        return True


def rounding_noise(values: Tensor) -> float:
    """Below this part of the squared norms, a squared distance made of these products is rounding."""
    exact = ROUNDING_UNITS * torch.finfo(values.dtype).eps
    if values.is_cpu or values.dtype != torch.float32:
        return exact
    if torch.compiler.is_compiling():
        from similis.objective.terms.untraced import constant  # imports the compiler

        return TF32_NOISE if constant(allows_tf32) else exact
    return TF32_NOISE if allows_tf32() else exact


def products(rows: Tensor, columns: Tensor) -> Tensor:
    """Inner products: (r, D) x (c, D) -> (r, c); a stack (c, K, D) or (r, m, D) adds an axis."""
    if rows.ndim == 3:
        return torch.einsum("rmd,cd->rcm", rows, columns)
    if columns.ndim == 3:
        return (rows @ columns.flatten(0, 1).T).view(len(rows), *columns.shape[:2])
    return rows @ columns.T


def squares(vectors: Tensor) -> Tensor:
    """Squared norms."""
    return vectors.square().sum(-1)


@dataclass
class Similarities:
    """Similarities with what is needed to read them as distances.

    ``squares`` is the sum of both squared norms, or the two apart, which are added only if a distance
    is asked for; None on the unit sphere, where the sum is 2.
    """

    s: Tensor
    squares: Tensor | tuple[Tensor, Tensor] | None

    @property
    def norms(self) -> Tensor | None:
        """The sum of both squared norms; None on the unit sphere."""
        return self.squares[0] + self.squares[1] if isinstance(self.squares, tuple) else self.squares

    @property
    def d2(self) -> Tensor:
        """Squared Euclidean distance, never negative, 0 where only rounding is left."""
        return self._squared(0.0)

    @property
    def d(self) -> Tensor:
        """Euclidean distance, with gradient 0 at 0."""
        # the root of the stand-in has a finite gradient, and every number of the type that is no rounding lies above it
        nothing = 4 * torch.finfo(self.s.dtype).tiny
        return functional.threshold(self._squared(nothing).sqrt(), 1.01 * math.sqrt(nothing), 0.0)

    def _squared(self, nothing: float) -> Tensor:
        """Squared distance, with ``nothing`` where only rounding is left; few passes, for this is an inner loop."""
        noise, norms = rounding_noise(self.s), self.norms
        if norms is None:
            return functional.threshold(torch.rsub(self.s, 2.0, alpha=2), 2.0 * noise, nothing)
        squared = torch.sub(norms, self.s, alpha=2)
        return torch.where(squared <= noise * norms, nothing, squared)  # NaN stays NaN

    def far(self, geometry: Geometry) -> Tensor:
        """How far apart in the geometry named: ``-s``, ``d2`` or ``d``."""
        if geometry == "cosine":
            return -self.s
        if geometry == "euclid2":
            return self.d2
        if geometry == "euclid":
            return self.d
        raise UserError(unknown("geometry", geometry, list(GEOMETRIES)))


def angle_cosine(an: Tensor, ap: Tensor, np: Tensor) -> Tensor:
    """Cosine of the angle at a between n - a and p - a, from inner products of unit vectors.

    ``(1 - a.p - a.n + n.p) / (|n - a| |p - a|)``; 0 where n or p coincides with a.
    """
    squares = Similarities(an, None).d2 * Similarities(ap, None).d2
    apart = squares > 0
    length = torch.where(apart, squares, 1.0).sqrt()
    return torch.where(apart, (1 - ap - an + np) / length, 0.0)
