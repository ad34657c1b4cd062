"""A registered loss on a linear map: value and gradients by autograd, class vectors learned beside the map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from similis.objective.module import Loss, loss
from similis.registry import LossEntry, losses
from similis.sklearn.matrix import Array, Penalty
from similis.values import OptionValue, Pairs, Triplets, UserError

# A metric is Euclidean after a map; losses that can be measured so are, unless the user asks otherwise.
EUCLIDEAN: dict[str, dict[str, OptionValue]] = {
    "contrastive": {"geometry": "hadsell", "margin": 2.0},
    "triplet": {"geometry": "euclid2", "margin": 1.0},
}


def built(name: str, options: Mapping[str, OptionValue], classes: int, dim: int, seed: int) -> Loss:
    """The loss of that name in double precision, in Euclidean geometry where it has the choice."""
    chosen: dict[str, Any] = {**EUCLIDEAN.get(name, {}), **options} if "geometry" not in options else dict(options)
    return loss(name, num_classes=classes, dim=dim, seed=seed, **chosen).double()


def on_sphere(criterion: Loss) -> bool:
    """Whether the loss sees unit vectors, so that distances must be measured between unit vectors too."""
    entry, options = criterion.entry, criterion.options
    if entry.input != "either":
        return entry.input == "unit"
    if options.get("sphere") is not None:
        return bool(options["sphere"])
    return options.get("geometry") in ("cosine", "euclid") or options.get("form") in ("thesis", "deepmetric")


def takes(name: str, kind: str) -> LossEntry:
    """The entry of a loss that takes given pairs or triplets; others are refused by name."""
    entry = losses.get(name)
    if entry.accepts != kind:
        able = [other.name for other in losses if other.accepts == kind]
        raise UserError(f"{name} does not take {kind}; use 'constraints' or one of: {', '.join(able)}")
    return entry


class Mapped:
    """The mean loss of rows under a map, regulariser included; holds the map and what the loss learns."""

    def __init__(self, criterion: Loss, start: Array, penalty: Penalty) -> None:
        self.criterion = criterion
        self.components = nn.Parameter(torch.tensor(start, dtype=torch.float64))
        self.penalty = penalty

    def parameters(self) -> list[nn.Parameter]:
        """The map first, then what the loss learns."""
        return [self.components, *self.criterion.parameters()]

    def backward(self, rows: Array, labels: Tensor, tuples: Pairs | Triplets | None = None) -> float:
        """The value on features (n, q); gradients are left in the parameters."""
        for parameter in self.parameters():
            parameter.grad = None
        vectors = torch.from_numpy(rows) @ self.components.T
        value = self.criterion(vectors, labels, tuples=tuples) + self.penalised()
        value.backward()
        return float(value.detach())

    def penalised(self) -> Tensor:
        """The regulariser as a graph."""
        weight = self.penalty.weight
        if not weight:
            return self.components.new_zeros(())
        if self.penalty.kind == "trace":
            return weight * self.components.square().sum()
        if self.penalty.matrix is not None:
            return weight * (self.components @ torch.from_numpy(self.penalty.matrix) * self.components).sum()
        return 0.5 * weight * (self.components @ self.components.T).square().sum()  # |G^T G| = |G G^T|

    def vector(self) -> Array:
        """All parameters as one vector."""
        made: Array = torch.cat([p.detach().flatten() for p in self.parameters()]).numpy()
        return made

    def function(
        self, rows: Array, labels: Tensor, tuples: Pairs | Triplets | None = None
    ) -> Callable[[Array], tuple[float, Array]]:
        """Vector -> value and gradient, for a solver of the whole table."""

        def at(vector: Array) -> tuple[float, Array]:
            self.load(vector)
            value = self.backward(rows, labels, tuples)
            parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters()]
            gradient: Array = torch.cat([part.flatten() for part in parts]).numpy()
            return value, gradient

        return at

    def load(self, vector: Array) -> None:
        """Put a vector of all parameters back."""
        first = 0
        with torch.no_grad():
            for parameter in self.parameters():
                values = torch.from_numpy(np.array(vector[first : first + parameter.numel()]))
                parameter.copy_(values.view_as(parameter))
                first += parameter.numel()


def tuples_of(kind: str, number: int, similar: Any = None) -> Pairs | Triplets:
    """Tuples over rows that stand one after another: (a, b) or (a, near, far) for each tuple."""
    width = 2 if kind == "pairs" else 3
    index = torch.arange(number * width).view(number, width)
    if kind == "triplets":
        return Triplets(index[:, 0], index[:, 1], index[:, 2])
    mask = torch.from_numpy(np.asarray(similar, dtype=bool))
    return Pairs(index[mask, 0], index[mask, 1], index[~mask, 0], index[~mask, 1])
