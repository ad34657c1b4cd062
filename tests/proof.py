"""What a loss's test file offers to the contracts and to the conformance page.

Each ``tests/objective/losses/test_NAME.py`` defines ``ORACLES``: form -> plain-loop function
``oracle(x, labels, learned, options)`` for every form that the registry declares, and may define
``PEERS``: form -> :class:`Peer`, the same loss in pytorch-metric-learning with a verdict, and ``WORKED``: arguments,
options and value of worked examples.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from similis.objective.loss import Loss, loss
from similis.registry import LossEntry, losses
from tests.batches import random_batch, random_learned

CLASSES, DIM = 4, 5
Oracle = Callable[[Tensor, list[int], dict[str, Tensor], dict[str, Any]], Tensor]


@dataclass(frozen=True)
class Peer:
    """The loss in the peer library: ``value(x, labels, learned)``, whether it agrees, and why not."""

    name: str
    value: Callable[[Tensor, Tensor, dict[str, Tensor]], Tensor]
    agrees: bool = True
    note: str = ""


def peer_of(name: str, **options: Any) -> Callable[[Tensor, Tensor, dict[str, Tensor]], Tensor]:
    """The value of a loss of the peer library."""

    def value(x: Tensor, labels: Tensor, learned: dict[str, Tensor]) -> Tensor:
        from pytorch_metric_learning import losses as theirs

        return getattr(theirs, name)(**options)(x, labels)

    return value


def proxy_peer(name: str, **options: Any) -> Callable[[Tensor, Tensor, dict[str, Tensor]], Tensor]:
    """The value of a loss of the peer library with our proxies in place of its own."""

    def value(x: Tensor, labels: Tensor, learned: dict[str, Tensor]) -> Tensor:
        from pytorch_metric_learning import losses as theirs

        made = getattr(theirs, name)(num_classes=len(learned["proxies"]), embedding_size=x.shape[1], **options)
        proxies = learned["proxies"].flatten(0, -2).to(x.dtype)
        if hasattr(made, "W"):
            made.W.data = proxies.T
        else:
            made.proxies.data = proxies
        return made(x, labels)

    return value


def proof_of(name: str) -> Any:
    """The test module of a loss."""
    return importlib.import_module(f"tests.objective.losses.test_{name}")


def forms() -> Iterator[tuple[LossEntry, str]]:
    """Every registered loss with each of its forms."""
    for entry in losses:
        for form in entry.forms:
            yield entry, form


# One form for each structural shape: pairs, a graded relation, triplets, mined tuples, rows with positives (a memory),
# classes as rows, classes as columns, several proxies of a class, ranks.
SHAPES = {
    ("multi_similarity", "default"), ("contrastive", "cosine"), ("triplet", "euclid2"), ("margin", "default"),
    ("supcon", "default"), ("proxy_anchor", "default"), ("normface", "default"), ("soft_triple", "default"),
    ("smooth_ap", "default"),
}  # fmt: skip


def shaped_forms() -> list[Any]:
    """Every form as a parameter; a form that is not the one of its shape belongs to the long proofs."""
    return [
        pytest.param(e, f, id=f"{e.name}:{f}", marks=() if (e.name, f) in SHAPES else pytest.mark.slow)
        for e, f in forms()
    ]


@contextmanager
def registered(entry: LossEntry) -> Iterator[None]:
    """The registry knows this entry by its name inside the block, and what it knew before after it.

    An entry made by a test (a broken copy of a loss, say) can so be built like any other.
    """
    losses.fill()
    known = dict(losses._entries)
    losses._entries[entry.name] = entry
    try:
        yield
    finally:
        losses._entries.clear()
        losses._entries.update(known)


def make(entry: LossEntry, **arguments: Any) -> Loss:
    """``similis.loss`` for an entry, for four classes of five dimensions."""
    with registered(entry):
        return loss(entry.name, num_classes=CLASSES, dim=DIM, **arguments)


def build(entry: LossEntry, form: str, seed: int = 0, dtype: torch.dtype = torch.float64, **more: Any) -> Loss:
    """The loss in that form for four classes of five dimensions, with random learned values."""
    made = make(entry, seed=seed, **{**entry.forms[form], **more})
    shapes = {key: tuple(value.shape) for key, value in made.learned.items()}
    with torch.no_grad():
        for key, value in random_learned(shapes, seed).items():
            made.learned[key].data = value.abs().to(dtype) if value.ndim < 2 else value.to(dtype)
    return made.to(dtype)


def full_options(entry: LossEntry, form: str) -> dict[str, Any]:
    """The options of a form with the defaults of the rest: what an oracle receives."""
    return {**entry.options, **entry.forms[form]}


def agreement(entry: LossEntry, form: str, oracle: Oracle, seed: int, duplicates: bool = True) -> tuple[float, float]:
    """Largest difference between loss and oracle in value, and in gradient relative to its size."""
    x, labels = random_batch(seed, DIM, duplicates)
    made = build(entry, form, seed)
    mine = x.clone().requires_grad_()
    value = made(mine, labels)
    got = torch.autograd.grad(value, [mine, *made.parameters()], allow_unused=True)
    theirs = x.clone().requires_grad_()
    learned = {key: p.detach().clone().requires_grad_() for key, p in made.learned.items()}
    truth = oracle(theirs, labels.tolist(), learned, full_options(entry, form))
    want = torch.autograd.grad(truth, [theirs, *learned.values()], allow_unused=True)
    pairs = [(g, w) for g, w in zip(got, want, strict=True) if g is not None or w is not None]
    scale = max([1.0, *(float(w.abs().max()) for w in want if w is not None)])
    gap = float(torch.stack([(zero(g, w) - zero(w, g)).abs().max() for g, w in pairs]).max())  # keeps a NaN
    return abs(value.item() - truth.item()) / max(1.0, abs(truth.item())), gap / scale


def zero(value: Tensor | None, like: Tensor | None) -> Tensor:
    """An unused gradient is a zero of the other's shape."""
    if value is not None:
        return value
    assert like is not None
    return torch.zeros_like(like)
