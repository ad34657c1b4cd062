"""Registered losses on a linear map: value and gradient by autograd, proxies learned beside the map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.func import functional_call

from similis.objective.loss import Loss, loss
from similis.sklearn.problem import Array, IntArray, Penalty
from similis.values import OptionValue, Pairs, Triplets

# A metric is Euclidean after a map; losses that can be measured so are, unless the user asks otherwise.
EUCLIDEAN: dict[str, dict[str, OptionValue]] = {
    "contrastive": {"geometry": "hadsell", "margin": 2.0},
    "triplet": {"geometry": "euclid2", "margin": 1.0},
}


def build_loss(name: str, options: Mapping[str, OptionValue], classes: int, dim: int, seed: int) -> Loss:
    """The loss of that name in double precision, in Euclidean geometry where it has the choice."""
    chosen: dict[str, Any] = {**({} if "geometry" in options else EUCLIDEAN.get(name, {})), **options}
    return loss(name, num_classes=classes, dim=dim, seed=seed, **chosen).double()


def compares_unit_vectors(criterion: Loss) -> bool:
    """Whether the loss sees unit vectors, so that distances must be measured between unit vectors too."""
    entry, options = criterion.entry, criterion.options
    if entry.input != "either":
        return entry.input == "unit"
    if options.get("sphere") is not None:
        return bool(options["sphere"])
    return options.get("geometry") in ("cosine", "euclid") or options.get("form") in ("thesis", "deepmetric")


def parameter_vector(criterion: Loss, start: Array) -> Array:
    """The map, then what the loss learns, as one vector."""
    return np.concatenate([start.ravel(), *(p.detach().numpy().ravel() for p in criterion.parameters())])


class LossProblem(NamedTuple):
    """A loss of rows (n, q) under a map to ``dim`` dimensions, and a regulariser."""

    criterion: Loss
    dim: int
    rows: Array
    labels: IntArray
    penalty: Penalty
    tuples: Pairs | Triplets | None = None

    def at_map(self, vector: Array) -> tuple[float, Array]:
        """Value and gradient at a :func:`parameter_vector`."""
        leaf = torch.tensor(vector, requires_grad=True)
        learned = dict(self.criterion.named_parameters())
        first, *rest = torch.split(leaf, [self.dim * self.rows.shape[1], *(p.numel() for p in learned.values())])
        components = first.view(self.dim, -1)
        values = {name: piece.view_as(p) for (name, p), piece in zip(learned.items(), rest, strict=True)}
        inputs = (torch.from_numpy(self.rows) @ components.T, torch.from_numpy(self.labels))
        value = functional_call(self.criterion, values, inputs, {"tuples": self.tuples})
        gradient = torch.autograd.grad(value, leaf)[0].numpy()
        extra, by_map = self.penalty.at_map(components.detach().numpy())
        gradient[: by_map.size] += by_map.ravel()
        return value.item() + extra, gradient


def consecutive_tuples(number: int, similar: Any) -> Pairs | Triplets:
    """Tuples over rows that stand one after another: pairs, some of them similar, or triplets for None."""
    if similar is None:
        return Triplets(*torch.arange(number * 3).view(number, 3).T)
    pairs, mask = torch.arange(number * 2).view(number, 2), torch.from_numpy(similar)
    return Pairs(*pairs[mask].T, *pairs[~mask].T)
