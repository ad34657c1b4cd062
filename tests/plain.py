"""Plain mathematics for oracles: loops over pairs of float64 vectors, nothing from the library.

Oracles are written from the definitions with these few functions; autograd over their numbers gives
their gradients. A set is a Python list; an empty one is an ordinary case, not an accident.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

ZERO = torch.zeros((), dtype=torch.float64)


def number(value: Tensor) -> float:
    """The plain number of a scalar, for decisions that are not differentiated."""
    return float(value.detach())


def on_sphere(x: Tensor) -> Tensor:
    """Rows divided by their norms."""
    return torch.stack([row / row.pow(2).sum().sqrt() for row in x])


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of two vectors."""
    return (a * b).sum()


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """Sum of squared differences."""
    return (a - b).square().sum()


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance; a constant 0 for equal vectors (value and gradient 0)."""
    squared = squared_distance(a, b)
    return squared.sqrt() if number(squared) > 0 else ZERO


def angle(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    """Cosine of the angle at a, 0 if one of the sides has no length."""
    sides = distance(a, p) * distance(a, n)
    return dot(n - a, p - a) / sides if number(sides) > 0 else ZERO


def hinge(z: Tensor) -> Tensor:
    """[z]_+ with slope 0 at the kink."""
    return z if number(z) > 0 else z * 0


def lse(values: Sequence[Tensor]) -> Tensor:
    """log sum exp of a non-empty list."""
    peak = max(number(v) for v in values)
    return sum(((v - peak).exp() for v in values), ZERO).log() + peak


def lse1(values: Sequence[Tensor]) -> Tensor:
    """log(1 + sum exp); 0 for an empty list."""
    return lse([ZERO, *values])


def softplus(z: Tensor) -> Tensor:
    """log(1 + e^z)."""
    return lse1([z])


def mean(values: Sequence[Tensor]) -> Tensor:
    """Mean; 0 for an empty list."""
    return sum(values, ZERO) / max(len(values), 1)


def positives(i: int, labels: Sequence[int]) -> list[int]:
    """P_i: same class, not i, by index."""
    return [j for j in range(len(labels)) if j != i and labels[j] == labels[i]]


def negatives(i: int, labels: Sequence[int]) -> list[int]:
    """N_i: other classes."""
    return [j for j in range(len(labels)) if labels[j] != labels[i]]
