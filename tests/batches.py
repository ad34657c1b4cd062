"""Batches of the tests: the worked ones of the specification, and random ones with every awkwardness."""

import math

import torch
from torch import Tensor


def circle(*degrees: float) -> Tensor:
    """Unit vectors at these angles, float64."""
    angles = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], 1)


A, A_LABELS = circle(0, 34, 97, 151, 208, 255), torch.tensor([0, 0, 1, 1, 2, 2])
B, B_LABELS = circle(0, 20, 75, 62, 121, 180), torch.tensor([0, 0, 0, 1, 1, 1])
PROXIES_A, PROXIES_B = circle(40, 80, 300), circle(50, 100)
CENTRES_A = circle(20, 70, 60, 120, 180, 300).view(3, 2, 2)
U = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [3.0, 1.0]], dtype=torch.float64)
U_LABELS = torch.tensor([0, 0, 1, 1])


def random_batch(seed: int, dim: int = 5, duplicates: bool = True) -> tuple[Tensor, Tensor]:
    """Eleven raw vectors, unsorted labels 0 to 3 of sizes 4, 3, 3, 1.

    With duplicates, one pair of equal vectors within a class and one across classes.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(11, dim, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3])[torch.randperm(11, generator=generator)]
    if duplicates:
        first, second = (labels == 0).nonzero()[:2, 0]
        x[second] = x[first]
        first, second = (labels == 1).nonzero()[0, 0], (labels == 2).nonzero()[0, 0]
        x[second] = x[first]
    return x, labels


def random_learned(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, Tensor]:
    """Random float64 values for what a loss learns."""
    generator = torch.Generator().manual_seed(seed + 1000)
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
