"""What contracts are made of: their list, exemptions, and results that must be the same."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.loss import Loss
from similis.registry import LossEntry
from tests.proof import zero

EXACT = 1e-10  # float64, the same mathematics in another order
# Half precision is widened at the door, so only the rounding of float32 is left. One bfloat16
# product inside would cost 4e-3, and a scale of 32 in an exponent would make 12 % of it.
HALF = 1e-3
SEEDS = (0, 1, 2)
BY_CLASS = ("proxy", "classification")


class Contract(NamedTuple):
    """A check with its name; ``once`` if it concerns the entry and not a form."""

    name: str
    check: Callable[[LossEntry, str], None]
    once: bool
    slow: bool


CONTRACTS: dict[str, Contract] = {}


def contract(once: bool = False, slow: bool = False) -> Callable[[Callable[[LossEntry, str], None]], Callable]:
    """List the decorated function under its own name."""

    def enlist(check: Callable[[LossEntry, str], None]) -> Callable[[LossEntry, str], None]:
        CONTRACTS[check.__name__] = Contract(check.__name__, check, once, slow)
        return check

    return enlist


def exemption(entry: LossEntry, form: str, name: str) -> str | None:
    """The reason why this form does not keep the contract; None if it must."""
    return entry.exempt.get(name) or entry.exempt.get(f"{name}:{form}")


def results(made: Loss | Callable, x: Tensor, labels: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """Value, gradient of the embeddings, gradients of the parameters (zeros where unused)."""
    x = x.detach().clone().requires_grad_()
    value = made(x, labels)
    found = torch.autograd.grad(value, [x, *parameters], allow_unused=True)
    return [value.detach(), *(zero(g, like) for g, like in zip(found, [x, *parameters], strict=True))]


def of(made: Loss, x: Tensor, labels: Tensor) -> list[Tensor]:
    """Results of a loss with all of its parameters."""
    return results(made, x, labels, list(made.parameters()))


def assert_same(got: list[Tensor], want: list[Tensor], what: str, tolerance: float = EXACT) -> None:
    """Equal up to ``tolerance`` relative to the larger of 1 and the wanted size."""
    assert len(got) == len(want), f"{what}: {len(got)} results instead of {len(want)}"
    for place, (a, b) in enumerate(zip(got, want, strict=True)):
        gap = float((a.double() - b.double()).abs().max()) / max(1.0, float(b.double().abs().max()))
        part = "value" if place == 0 else f"gradient {place}"
        assert gap <= tolerance, f"{what}: {part} differs by {gap:.1e}, more than {tolerance:.0e}"
