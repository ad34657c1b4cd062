"""What the processes of the tests do, and the same in one process."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from similis.objective.context import distributed, tiles
from similis.objective.loss import Loss
from similis.objective.ranks import Ranks
from similis.objective.sharding import shard
from similis.objective.wrappers.guided import Guided
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.registry import losses
from tests.proof import CLASSES, DIM, build

FEATURES = 6
EVEN = {2: (6, 6), 4: (3, 3, 3, 3)}
UNEVEN = {2: (8, 4), 4: (5, 1, 4, 2)}


def batch(seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Twelve inputs of a model, labels of sizes 4, 3, 3, 2 in random order, image ids."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(12, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3])[torch.randperm(12, generator=generator)]
    return inputs, labels, torch.randperm(100, generator=generator)[:12]


def network(seed: int, dtype: torch.dtype) -> nn.Module:
    """A small model without batch norm."""
    generator = torch.Generator().manual_seed(seed + 77)
    layer = nn.Linear(FEATURES, DIM, dtype=dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return layer


def objective(name: str, form: str, seed: int, dtype: torch.dtype, kind: str = "plain", **more: object) -> nn.Module:
    """A loss, alone or inside a wrapper."""
    made: Loss = build(losses.get(name), form, seed, dtype, **more)
    if kind == "nested":
        return Nested(made, (2, DIM))
    if kind == "memory":
        return CrossBatchMemory(made, size=20, dim=DIM).to(dtype)
    if kind == "language":
        return Guided(made, likeness(seed).to(dtype), weight=2.0)
    return made


def likeness(seed: int) -> Tensor:
    """A class-similarity matrix."""
    words = torch.randn(CLASSES, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return nn.functional.normalize(words, dim=1) @ nn.functional.normalize(words, dim=1).T


def alone(case: dict, steps: int = 1) -> list[list[Tensor]]:
    """Value and all gradients of one process on the joined batch, for each of the steps."""
    dtype, seed = case.get("dtype", torch.float64), case.get("seed", 0)
    model, made = network(seed, dtype), objective(seed=seed, dtype=dtype, **case["objective"])
    found = []
    for step in range(steps):
        inputs, labels, ids = batch(seed + step, dtype)
        found.append(results(model, made, model(inputs), related(case, labels, dtype), ids, case.get("tile")))
    return found


def related(case: dict, labels: Tensor, dtype: torch.dtype) -> Tensor:
    """Labels, or a relation in their place: grades between samples, or several classes for each sample."""
    if not case.get("relation"):
        return labels
    if losses.get(case["objective"]["name"]).family in ("proxy", "classification"):
        return nn.functional.one_hot(labels, CLASSES) | nn.functional.one_hot((labels + 1) % CLASSES, CLASSES)
    grades = torch.rand(12, 12, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(dtype)
    return torch.where(labels[:, None] == labels, (grades + grades.T) / 2, 0.0)


def results(model, made, embeddings, labels, ids, tile=None) -> list[Tensor]:
    """Value, then gradients of the model and of what the loss learns."""
    for parameter in [*model.parameters(), *made.parameters()]:
        parameter.grad = None
    if tile:
        with tiles(*tile):
            value = value_of(made, embeddings, labels, ids)
    else:
        value = value_of(made, embeddings, labels, ids)
    value.backward()
    parameters = [*model.parameters(), *made.parameters()]
    return [value.detach(), *(torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters)]


def value_of(made, embeddings, labels, ids) -> Tensor:
    return made(embeddings, labels, image_ids=ids) if isinstance(made, CrossBatchMemory) else made(embeddings, labels)


def together(communicator, case: dict, counts: tuple[int, ...], steps: int = 1) -> list[list[Tensor]]:
    """The same in one of several processes: its rows, the network's gradients averaged over the processes by DDP or as
    it does. With ``word`` the loss finds the processes by itself, as with ``distributed=True``; with ``divided`` each
    has a share of the class vectors, whose gradients are joined for the comparison."""
    dtype, seed = case.get("dtype", torch.float64), case.get("seed", 0)
    model, made = network(seed, dtype), objective(seed=seed, dtype=dtype, **case["objective"])
    rank, inner, own = communicator.rank, innermost(made), len(list(model.parameters()))
    if case.get("divided"):
        shard(inner, communicator)
    net = DistributedDataParallel(model) if case.get("ddp") else model
    found = []
    for step in range(steps):
        inputs, labels, ids = batch(seed + step, dtype)
        labels = related(case, labels, dtype)
        inputs, labels, ids = (part.split(counts)[rank] for part in (inputs, labels, ids))
        if case.get("word"):
            inner.ranks = Ranks(None)
            one = results(net, made, net(inputs), labels, ids, case.get("tile"))
        else:
            with distributed(None if case.get("local") else communicator):
                one = results(net, made, net(inputs), labels, ids, case.get("tile"))
        if not case.get("ddp"):
            communicator.average(one[1 : 1 + own])
        if case.get("divided"):
            for place, parameter in enumerate(inner.learned.values()):
                if parameter.ndim > 1:
                    one[1 + own + place] = inner.classes.gather(one[1 + own + place])
        found.append(one)
    return found


def innermost(made: nn.Module) -> Loss:
    return made if isinstance(made, Loss) else innermost(made.loss)


def several(communicator, work: list[tuple[dict, tuple[int, ...], int]]) -> list[list[list[Tensor]]]:
    """Many cases in one message."""
    return [together(communicator, *one) for one in work]
