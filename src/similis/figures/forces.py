"""Force pictures: what a loss does to a small batch on the circle.

Every sample is drawn with the direction in which gradient descent moves it, and so is every proxy
that the loss learns. Strengths differ by orders of magnitude within one batch, so arrows
grow with the square root of the strength; what is below a hundredth of the strongest is marked as
still instead of drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from similis.introspection import keyword_defaults
from similis.registry import LossEntry, check_known, losses

if TYPE_CHECKING:
    from similis.objective.loss import Loss

# Three classes: two that overlap (one sample of each lies among the other's), one that is easy to tell.
DEGREES = (5.0, 38.0, 96.0, 66.0, 128.0, 160.0, 232.0, 262.0, 300.0)
LABELS = (0, 0, 0, 1, 1, 1, 2, 2, 2)
PROXY_DEGREES = (20.0, 112.0, 318.0)
SPREAD = 28.0  # degrees between neighbouring proxies of one class, where a loss learns several
MOST = 3  # proxies of one class
Settings = Mapping[str, Any] | None


@dataclass(frozen=True)
class PointForces:
    """Points (N, 2), the class of each (N,), and minus the gradient at each (N, 2)."""

    points: Tensor
    classes: Tensor
    forces: Tensor

    @property
    def strength(self) -> Tensor:
        """Length of each force relative to the strongest, (N,); zeros if nothing moves."""
        length: Tensor = torch.linalg.vector_norm(self.forces, dim=1)
        return length / length.max() if float(length.max()) > 0 else length


@dataclass(frozen=True)
class Forces:
    """The forces of a loss: on samples, on proxies (None without any), on learned numbers.

    ``changed`` are options that were set, or lowered for the picture: ten proxies of a class are drawn as three.
    """

    name: str
    form: str
    value: float
    samples: PointForces
    proxies: PointForces | None
    numbers: dict[str, float]
    changed: dict[str, Any]


def forces(name: str, *, form: str | None = None, settings: Settings = None) -> Forces:
    """Minus the gradient of a loss at the batch of the pictures, in float64.

    Args:
        name: a registered loss; ``similis losses`` lists them.
        form: one of its forms; None for the first.
        settings: options of the loss that differ from those of the form.

    Example:
        >>> pushed = forces("triplet", form="cosine")
        >>> bool((pushed.samples.points * pushed.samples.forces).sum(1).abs().max() < 1e-12)
        True
    """
    chosen, made, changed = build_drawn_loss(name, form, settings)
    x = unit_vectors(DEGREES).requires_grad_()
    labels = torch.tensor(LABELS)
    value = made(x, labels)
    learned = dict(made.learned.items())
    by_x, *rest = torch.autograd.grad(value, [x, *learned.values()], allow_unused=True, materialize_grads=True)
    down = {key: -gradient for key, gradient in zip(learned, rest, strict=True)}
    moved, numbers = None, {}
    for key, tensor in learned.items():
        if tensor.ndim >= 2:
            per_class = tensor.numel() // (2 * len(PROXY_DEGREES))
            classes = torch.arange(len(PROXY_DEGREES)).repeat_interleave(per_class)
            moved = PointForces(tensor.detach().reshape(-1, 2), classes, down[key].reshape(-1, 2))
        else:
            numbers[key] = float(down[key].sum())
    return Forces(name, chosen, value.item(), PointForces(x.detach(), labels, -by_x), moved, numbers, changed)


def build_drawn_loss(name: str, form: str | None, settings: Settings = None) -> tuple[str, Loss, dict[str, Any]]:
    """The form's name, the loss with its proxies at fixed places of the circle, and the options lowered for it."""
    from similis.objective.loss import loss

    entry = losses.get(name)
    chosen = next(iter(entry.forms)) if form is None else form
    check_known(f"form of {name}", chosen, entry.forms)
    changed: dict[str, Any] = lower_counts(entry, chosen) | dict(settings or {})
    options: dict[str, Any] = {**entry.forms[chosen], **changed}
    made = loss(name, num_classes=len(PROXY_DEGREES), dim=2, **options).double()
    with torch.no_grad():
        for tensor in made.learned.values():
            if tensor.ndim >= 2:
                tensor.copy_(proxy_places(tensor.numel() // (2 * len(PROXY_DEGREES))).reshape(tensor.shape))
    return chosen, made, changed


def lower_counts(entry: LossEntry, form: str) -> dict[str, int]:
    """Lower numbers of proxies per class that do not fit into the picture to three."""
    options = {**entry.options, **entry.forms[form]}
    counts = [key for make in entry.learns.values() for key in keyword_defaults(make)]
    values = ((key, options[key]) for key in counts)
    return {key: MOST for key, value in values if isinstance(value, int) and value > MOST}


def proxy_places(per_class: int) -> Tensor:
    """Proxies (3 K, 2): one at each class's place, or K side by side around it."""
    step = min(SPREAD, 80.0 / per_class)
    offsets = [step * (k - (per_class - 1) / 2) for k in range(per_class)]
    return unit_vectors([degree + offset for degree in PROXY_DEGREES for offset in offsets])


def unit_vectors(degrees: tuple[float, ...] | list[float]) -> Tensor:
    """Unit vectors (N, 2) at these angles, float64."""
    angles = torch.tensor(degrees, dtype=torch.float64) * (math.pi / 180)
    return torch.stack([angles.cos(), angles.sin()], 1)
