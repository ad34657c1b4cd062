"""Cases of the checks: a registered loss in one of its forms and calls, its batch, and its value with all gradients.

Every number is a sine of its place, so that any machine makes the same batch without a generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from similis.objective.context import Context, Partition, Tiling, use_context
from similis.objective.loss import Loss, loss
from similis.objective.references import Block, batch_references
from similis.objective.sharding import shard
from similis.registry import losses

CPU = torch.device("cpu")
CLASSES, DIM, ROWS = 9, 8, 36
MANY, MANY_CLASSES = 184, 40  # rows and classes from which a dense comparison takes positives by list
MINERS = {"pairs": "multi_similarity", "triplets": "semi_hard"}
SIDES = ("documents", "frozen")  # calls with two sides; those of ``frozen`` come from a network that does not learn
FEW = ("supcon", "multi_similarity", "proxy_anchor")  # losses for what takes long: second derivatives, memory, speed
ONE_BATCH = ("lifted:song", "npair:one", "npair:pairs")  # forms that take no documents
FLOOR = 1e-2  # a difference is relative to the wanted magnitude, or to this where nearly nothing is wanted
GENERATED = ("cpu", "cuda", "mps", "xpu")  # devices that inductor generates kernels for


class Case(NamedTuple):
    """A loss, its form, how it is called (``labels``, ``many``, ``relation``, ...), and the seed of its batch."""

    name: str
    form: str
    call: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.form} {self.call}"


class Way(NamedTuple):
    """How a case is computed, and how far value and gradients may be from the reference (see ``difference``)."""

    dtype: torch.dtype = torch.float64
    tiling: Tiling | Literal["auto"] | None = None
    tolerances: tuple[float, float] = (1e-9, 1e-9)
    rounded: torch.dtype = torch.float64  # of the embeddings before they get their type
    compiled: bool = False


def list_cases(names: Sequence[str] = (), seed: int = 0) -> Iterator[Case]:
    """Every form of the named losses (of all without names) in every call that its traits allow."""
    for entry in [losses.get(name) for name in names] if names else losses:
        traits = {
            "labels": True, "many": True, "relation": entry.relation != "none", "memory": entry.memory,
            "mined": entry.accepts, "sharded": is_by_class(entry.name), "penalty": entry.name in FEW,
            **dict.fromkeys(SIDES, entry.memory and entry.family in ("pair", "triplet")),
        }  # fmt: skip
        for form in entry.forms:
            left_out = [key.removesuffix(f":{form}") for key in entry.exempt]
            left_out += SIDES if f"{entry.name}:{form}" in ONE_BATCH else []
            yield from (Case(entry.name, form, call, seed) for call in traits if traits[call] and call not in left_out)


def is_by_class(name: str) -> bool:
    """Whether a loss compares samples with classes."""
    return losses.get(name).family in ("proxy", "classification")


def numbers(shape: Sequence[int], seed: int) -> Tensor:
    """Float64 numbers between -1 and 1 that look random."""
    places = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float64, device=CPU)
    return ((places * 12.9898 + (seed + 1) * 78.233).sin() * 43758.5453).remainder(2.0).sub(1.0).view(tuple(shape))


def make_batch(case: Case) -> tuple[Tensor, Tensor]:
    """Embeddings in float64 and labels or a relation, on the host; the first two rows are alike.

    A row of two sides holds a query, its document and two hard negatives of its own.
    """
    count, classes = (MANY, MANY_CLASSES) if case.call == "many" else (ROWS, CLASSES)
    x = numbers((count, 4 * DIM if case.call in SIDES else DIM), case.seed)
    labels = (numbers((count,), case.seed + 1).abs() * classes).long()
    x[1], labels[1] = x[0], labels[0]
    if case.call == "relation":
        grade = 0.2 + 0.4 * numbers((count,), case.seed + 2).abs()
        same = labels[:, None] == (torch.arange(classes) if is_by_class(case.name) else labels)
        grades = grade[:, None] + grade[: same.shape[1]]
        labels = torch.where(same, grades if losses.get(case.name).relation == "graded" else 1.0, 0.0)
    return x, labels


def build(case: Case, way: Way, device: torch.device, part: Partition | None) -> Loss:
    """The loss of a case; what it learns depends on the seed of the case alone."""
    entry, classes = losses.get(case.name), MANY_CLASSES if case.call == "many" else CLASSES
    miner = MINERS[entry.accepts] if case.call == "mined" and entry.accepts else None
    options: dict[str, Any] = dict(entry.forms[case.form])
    made = loss(case.name, num_classes=classes, dim=DIM, miner=miner, distributed=part is not None, **options)
    for place, value in enumerate(made.learned.values()):
        start = numbers(value.shape, case.seed + 10 + place)
        value.data = start if value.ndim > 1 else start.abs()
    made = shard(made) if part is not None and case.call == "sharded" else made
    return made.to(device, torch.promote_types(way.dtype, torch.float32))


def compute(case: Case, way: Way, device: torch.device = CPU, part: Partition | None = None) -> list[Tensor]:
    """The value and the gradients of embeddings and of what is learned, in float64 on the host.

    With a part, this rank computes its own rows of the global batch.
    """
    x, labels = make_batch(case)
    own = slice(0, len(x)) if part is None else slice(part.first, part.first + part.own)
    made = build(case, way, device, part)
    x = x[own].to(way.rounded).to(way.dtype).to(device).requires_grad_()
    labels = labels[own].float() if labels.is_floating_point() and way.dtype != torch.float64 else labels[own]
    labels = labels if case.call == "many" else labels.to(device)
    if way.compiled:
        made.compile(fullgraph=True, backend="inductor" if device.type in GENERATED else "aot_eager")
    half = torch.autocast(device.type, torch.bfloat16, enabled=way.dtype == torch.bfloat16)
    with use_context(Context(tiling=way.tiling)), made.join_ranks(), half:
        more: dict[str, Any] = {}
        if case.call == "memory":
            more = {"references": batch_references(x, labels, remember(x, way, own.start))}
        elif case.call in SIDES:
            more = {"documents": x[:, DIM : 2 * DIM], "negatives": x[:, 2 * DIM :].view(len(x), 2, DIM)}
        value = made(x[:, :DIM].detach() if case.call == "frozen" else x[:, :DIM], labels, **more)
    if case.call == "penalty":
        value = torch.autograd.grad(value, x, create_graph=True)[0].square().sum()
    value.backward()
    found = [value, *(torch.zeros_like(p) if p.grad is None else p.grad for p in (x, *made.learned.values()))]
    if part is not None:
        found[1] = found[1] / part.communicator.world  # of the sum over ranks of the value, see objective.context
    if made.classes is not None:
        found[2:] = [made.classes.gather(each) if each.ndim > 1 else each for each in found[2:]]
    return [each.detach().cpu().double() for each in found]


def remember(x: Tensor, way: Way, first: int) -> Block:
    """A memory, which holds the last images of the global batch."""
    ids, rows = torch.arange(2 * CLASSES, device=x.device), torch.arange(len(x), device=x.device)
    held = numbers((2 * CLASSES, DIM), 3).to(way.rounded).to(x)
    return Block(held, ids * 5 % CLASSES, own=rows + first, ids=ids + ROWS - 5)


def differences(got: Sequence[Tensor], want: Sequence[Tensor]) -> tuple[float, float]:
    """That of the value, and the largest one of the gradients, as :func:`compute` gives them."""
    value, *gradients = (difference(*pair) for pair in zip(got, want, strict=True))
    return value, max(gradients)


def difference(got: Tensor, want: Tensor) -> float:
    """Largest difference relative to the wanted magnitude; infinite for another shape or for NaN."""
    if got.shape != want.shape or not bool(got.isfinite().all()):
        return float("inf")
    return float((got - want).abs().max()) / max(FLOOR, float(want.abs().max())) if got.numel() else 0.0
