"""What the hostile tests of the losses share: every registered form, both back-ends, one way to take results."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch import Tensor

from similis.objective.context import dense, tiles
from similis.objective.loss import Loss
from similis.registry import LossEntry
from tests.batches import random_batch
from tests.proof import DIM, build, shaped_forms, zero

BACKENDS: dict[str, Callable[[], AbstractContextManager[None]]] = {"dense": dense, "tiles": lambda: tiles(3, 4)}
every_form = pytest.mark.parametrize(("entry", "form"), shaped_forms())
every_backend = pytest.mark.parametrize("backend", list(BACKENDS))


def results(made: Callable[..., Tensor], x: Tensor, labels: Tensor, backend: str = "dense") -> list[Tensor]:
    """Value, gradient of the embeddings, gradients of the parameters (zeros where unused)."""
    x = x.detach().clone().requires_grad_()
    own = [p for p in made.parameters() if p.requires_grad] if isinstance(made, torch.nn.Module) else []
    with BACKENDS[backend]():
        value = made(x, labels)
    found = torch.autograd.grad(value, [x, *own], allow_unused=True)
    return [value.detach(), *(zero(g, like) for g, like in zip(found, [x, *own], strict=True))]


def same(got: list[Tensor], want: list[Tensor]) -> bool:
    """Equal bit by bit; NaN is equal to nothing."""
    return all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def batch(seed: int = 0, dtype: torch.dtype = torch.float32, duplicates: bool = True) -> tuple[Tensor, Tensor]:
    """Eleven embeddings with labels 0 to 3."""
    x, labels = random_batch(seed, DIM, duplicates)
    return x.to(dtype), labels


def ignores_length(entry: LossEntry, form: str) -> bool:
    """Whether the form puts embeddings on the unit sphere: their length then means nothing."""
    made: Loss = build(entry, form)
    x, labels = batch(dtype=torch.float64)
    return bool(torch.isclose(made(x, labels), made(2 * x, labels), rtol=1e-9, atol=0.0))
