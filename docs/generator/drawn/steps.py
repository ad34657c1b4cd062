"""Forces of all losses side by side, and gradient steps on the sphere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from docs.generator.panels import new_grid
from similis.figures.canvas import COLOURS, ink
from similis.figures.force_plot import draw_batch, draw_circle
from similis.figures.forces import forces
from similis.registry import losses
from similis.sphere import unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS, CLASSES, EACH = 60, 3, 6
FIRST = 0.15  # length of the longest first step, which sets the rate of each loss
SHOWN = ("triplet", "multi_similarity", "proxy_anchor", "arcface")


def draw_all_forces() -> Figure:
    """The forces of every loss on one batch, small."""
    entries = list(losses)
    figure, panels = new_grid(len(entries), 4, 1.6, 1.75)
    for axes, entry in zip(panels, entries, strict=True):
        draw_batch(axes, forces(entry.name), size=18.0)
        axes.set_title(entry.name, fontsize=10)
    return figure


def descend(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sixty steps of gradient descent on the sphere: paths (61, 18, 3), labels, loss (61,), the last proxies (C, 3)."""
    from similis.objective.loss import loss

    generator = torch.Generator().manual_seed(3)
    x = unit(torch.randn(CLASSES * EACH, 3, generator=generator, dtype=torch.float64))
    labels = torch.arange(CLASSES).repeat_interleave(EACH)
    made = loss(name, num_classes=CLASSES, dim=3).double()
    with torch.no_grad():
        for table in made.learned.values():
            table.copy_(unit(torch.randn(table.shape, generator=generator, dtype=torch.float64)))
    paths, values, rate = [x], [], 0.0
    for _ in range(STEPS + 1):
        moving = [x.requires_grad_(), *made.learned.values()]
        value = made(x, labels)
        gradients = torch.autograd.grad(value, moving)
        rate = rate or FIRST / max(float(each.norm(dim=-1).max()) for each in gradients)
        values.append(value.item())
        with torch.no_grad():
            x = unit(x - rate * gradients[0])
            for table, gradient in zip(moving[1:], gradients[1:], strict=True):
                table.copy_(unit(table - rate * gradient))
        paths.append(x)
    proxies = torch.cat([x[:0].detach(), *(table.detach() for table in made.learned.values())])
    return torch.stack([each.detach() for each in paths[:-1]]), labels, torch.tensor(values), proxies


def draw_steps() -> Figure:
    """Paths of 18 samples on the sphere, seen from one side; the far side is faint."""
    figure, panels = new_grid(len(SHOWN), 2, 2.9, 3.2)
    for axes, name in zip(panels, SHOWN, strict=True):
        paths, labels, values, proxies = descend(name)
        draw_circle(axes, 1.0)
        for sample, label in zip(paths.transpose(0, 1), labels.tolist(), strict=True):
            axes.plot(sample[:, 0], sample[:, 1], color=COLOURS[label], linewidth=0.9, alpha=0.6, zorder=2)
            for place, filled in ((sample[0], False), (sample[-1], True)):
                face = COLOURS[label] if filled else "none"
                axes.scatter([place[0]], [place[1]], s=26, facecolor=face, edgecolor=COLOURS[label],
                             alpha=1.0 if place[2] > 0 else 0.35, zorder=3)  # fmt: skip
        for place, colour in zip(proxies, COLOURS, strict=False):
            axes.scatter([place[0]], [place[1]], s=150, marker="*", color=colour, edgecolor=ink(), zorder=4,
                         alpha=1.0 if place[2] > 0 else 0.35)  # fmt: skip
        axes.set_title(f"{name}\nloss {values[0]:.2f} to {values[-1]:.2f}", fontsize=10)
        axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
        axes.set_axis_off()
    return figure
