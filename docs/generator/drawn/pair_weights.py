"""How strongly a loss pulls or pushes a pair, by the similarity of the pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from docs.generator.panels import new_grid
from similis.figures.canvas import COLOURS, new_figure
from similis.figures.forces import Settings, lower_counts
from similis.registry import LossEntry, losses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMILARITIES = torch.linspace(-0.55, 0.95, 76, dtype=torch.float64)
POSITIVE, NEGATIVE = 0.6, 0.3  # where one pair stays while the other moves
PULL, PUSH = COLOURS[0], COLOURS[1]


def pair_weights(name: str, *, settings: Settings = None) -> dict[str, Tensor]:
    """Minus dL/dS of a positive and dL/dS of a negative pair, for every similarity S of ``SIMILARITIES``.

    An anchor has a positive and a negative; one of the two pairs moves, the other stays at 0.6 or 0.3. With proxies,
    the pairs are those of a sample with its own and with another proxy. The weight is read off the real gradient: at a
    unit vector x it is a sum of the directions towards the others, each times the weight of its pair.

    Args:
        name: a registered loss.
        settings: options that differ from its first form.

    Example:
        >>> weights = pair_weights("contrastive")
        >>> bool((weights["pull"] > 0).all()), bool((weights["push"][SIMILARITIES < 0.4] == 0).all())
        (True, True)
    """
    entry = losses.get(name)
    pull = [weight_of(entry, settings, float(s), NEGATIVE, 0) for s in SIMILARITIES]
    push = [-weight_of(entry, settings, POSITIVE, float(s), 1) for s in SIMILARITIES]
    return {"pull": torch.tensor(pull), "push": torch.tensor(push)}


def weight_of(entry: LossEntry, settings: Settings, near: float, far: float, moving: int) -> float:
    """Minus dL/dS of the positive (0) or negative (1) pair, of which the similarities are ``near`` and ``far``."""
    from similis.objective.loss import loss

    form = next(iter(entry.forms))
    options = {**entry.forms[form], **lower_counts(entry, form), **(settings or {})}
    made = loss(entry.name, num_classes=3, dim=11, **options).double()
    axes = torch.eye(11, dtype=torch.float64)
    tables = [tensor for tensor in made.learned.values() if tensor.ndim >= 2]
    each = tables[0].numel() // 33 if tables else 1  # proxies of a class, or one sample in their place
    cosines = torch.tensor([near, far, 0.0][: 3 if tables else 2]).double().repeat_interleave(each)[:, None]
    others = cosines * axes[0] + (1 - cosines**2).sqrt() * axes[1 : 1 + len(cosines)]  # each has an axis of its own
    if tables:
        with torch.no_grad():
            tables[0].copy_(others.reshape(tables[0].shape))
        x, labels, row = torch.stack([axes[0], axes[10]]), torch.tensor([0, 1]), 0
    else:
        x, labels, row = torch.stack([axes[0], *others, axes[10]]), torch.tensor([0, 0, 1, 1]), 1 + moving
        others = torch.cat([x[:row], x[row + 1 :]])
    (gradient,) = torch.autograd.grad(made(x.requires_grad_(), labels), [x])
    here = x[row].detach()
    towards = others - (others @ here)[:, None] * here
    tangent = -gradient[row] + (gradient[row] @ here) * here
    found = torch.linalg.lstsq(towards.detach().T, tangent[:, None]).solution[:, 0]
    return float(found[moving * each : (moving + 1) * each].sum() if tables else found[0])


def draw_pair_weights() -> Figure:
    """Pull and push by similarity for every loss, each scaled by its own largest weight."""
    entries = list(losses)
    figure, panels = new_grid(len(entries), 3, 2.1, 1.45)
    for axes, entry in zip(panels, entries, strict=True):
        found = pair_weights(entry.name)
        most = max(float(each.abs().max()) for each in found.values()) or 1.0
        for (word, values), colour, dash in zip(found.items(), (PULL, PUSH), ("-", "--"), strict=True):
            axes.plot(SIMILARITIES, values / most, color=colour, linestyle=dash, label=f"{word} of a pair")
        axes.set_title(entry.name, fontsize=10)
        axes.set(xticks=[-0.5, 0, 0.5], yticks=[0, 1])
        axes.tick_params(labelsize=8)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower right", frameon=False, fontsize=10)
    figure.supxlabel("similarity of the pair", fontsize=10)
    figure.supylabel("weight of the pair, relative to the largest", fontsize=10)
    return figure


def draw_scales() -> Figure:
    """Pull and push of NormFace at four scales, the inverse of its temperature."""
    figure = new_figure(6.6, 3.2)
    found = {scale: pair_weights("normface", settings={"scale": scale}) for scale in (1.0, 4.0, 16.0, 64.0)}
    for number, word in enumerate(("pull", "push")):
        axes = figure.add_subplot(1, 2, number + 1)
        for colour, dash, (scale, weights) in zip(COLOURS, ("-", "--", "-.", ":"), found.items(), strict=False):
            values = weights[word] / (scale / 2)  # the mean of two samples
            axes.plot(SIMILARITIES, values, color=colour, linestyle=dash, label=f"scale {scale:g}")
        words = f"its own proxy (other: {NEGATIVE:g})" if word == "pull" else f"the other proxy (own: {POSITIVE:g})"
        axes.set(xlabel=f"similarity to {words}", ylabel=f"{word}, a share of the full one")
        axes.grid(alpha=0.25)
        if not number:
            axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure
