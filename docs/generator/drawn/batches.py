"""What a loss takes from a batch: edges between samples and proxies, and the triplets that miners pick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from docs.generator.panels import new_grid
from similis.figures.canvas import COLOURS, ink, new_figure
from similis.figures.force_plot import RING, draw_circle
from similis.figures.forces import DEGREES, LABELS, MOST, PROXY_DEGREES, proxy_places, unit_vectors
from similis.registry import miners
from similis.values import Triplets

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POSITIVE, MARGIN = 0.55, 0.2  # similarity of the anchor's positive, and the margin of the zones
MINERS = ("batch_hard", "semi_hard", "semi_hard_band", "distance_weighted", "random")
PULL, PUSH = COLOURS[0], COLOURS[1]


def mined_batch() -> tuple[Tensor, Tensor]:
    """An anchor (row 0), twelve positives of one similarity, 24 negatives of other classes: unit vectors and labels."""
    similarities = torch.cat([torch.full((12,), POSITIVE), torch.linspace(-0.6, 0.9, 24)]).double()
    x = torch.eye(37, dtype=torch.float64)
    for row, similarity in enumerate(similarities.tolist(), 1):
        x[row] = similarity * x[0] + (1 - similarity**2) ** 0.5 * x[row]
    return x, torch.tensor([0] * 13 + list(range(1, 25)))


def mined_negatives(name: str) -> Tensor:
    """Similarities to the anchor of the negatives that a miner picks for it."""
    x, labels = mined_batch()
    options: dict[str, dict[str, Any]] = {"semi_hard_band": {"margin": MARGIN}, "distance_weighted": {"dim": 3}}
    found = mine_triplets(name, x, labels, options.get(name, {}))
    return (x @ x.T)[0, found.negatives[found.anchors == 0]]


def mine_triplets(name: str, x: Tensor, labels: Tensor, options: Mapping[str, Any]) -> Triplets:
    """What a miner picks from unit vectors."""
    same, other = labels[:, None] == labels, ~torch.eye(len(labels), dtype=torch.bool)
    found: Triplets = miners.get(name).function(x @ x.T, same & other, ~same, **options)
    return found


def draw_zones() -> Figure:
    """Easy, semi-hard and hard negatives of one anchor, and which of them each miner picks."""
    x, labels = mined_batch()
    every = (x @ x.T)[0, labels != 0]
    figure = new_figure(6.6, 3.3)
    axes = figure.add_subplot()
    zones = {"easy": (-0.65, POSITIVE - MARGIN), "semi-hard": (POSITIVE - MARGIN, POSITIVE), "hard": (POSITIVE, 0.95)}
    for (zone, ends), colour in zip(zones.items(), (COLOURS[2], COLOURS[4], COLOURS[1]), strict=True):
        axes.axvspan(*ends, color=colour, alpha=0.18, linewidth=0)
        axes.text(sum(ends) / 2, -0.85, zone, ha="center", fontsize=9)
    for row, name in enumerate(MINERS):
        picked = mined_negatives(name)
        axes.scatter(every, [row] * len(every), s=26, facecolor="none", edgecolor="0.6", linewidth=0.8)
        axes.scatter(picked, [row] * len(picked), s=46, color=PUSH, zorder=3)
    axes.axvline(POSITIVE, color=PULL, label="the positives")
    axes.axvline(POSITIVE - MARGIN, color=PULL, linestyle=":", label="the positives, less the margin")
    axes.set_yticks(range(len(MINERS)), MINERS)
    axes.set(xlim=(-0.65, 0.95), ylim=(len(MINERS) - 0.4, -1.1), xlabel="similarity of a negative to the anchor")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    figure.tight_layout()
    return figure


def draw_edges() -> Figure:
    """The comparisons that four kinds of losses make in one batch: solid edges pull, dashed ones push."""
    x, labels = unit_vectors(DEGREES), torch.tensor(LABELS)
    triplets = mine_triplets("all_triplets", x, labels, {})
    pairs = list(combinations(range(len(x)), 2))
    figure, panels = new_grid(4, 2, 2.7, 3.0)
    draw_comparisons(panels[0], f"pairs: {len(pairs)}", x, labels, pairs)
    title = f"triplets: {len(triplets.anchors)}\n(those of one anchor)"
    draw_comparisons(panels[1], title, x, labels, [pair for pair in pairs if pair[0] == 0])
    for axes, number, words in ((panels[2], 1, "proxies"), (panels[3], MOST, f"{MOST} proxies a class")):
        proxies, own = RING * proxy_places(number), torch.arange(len(PROXY_DEGREES)).repeat_interleave(number)
        among = list(product(range(len(x)), range(len(x), len(x) + len(proxies))))
        draw_comparisons(axes, f"{words}: {len(among)}", torch.cat([x, proxies]), torch.cat([labels, own]), among)
    return figure


def draw_comparisons(axes: Axes, title: str, x: Tensor, labels: Tensor, edges: Sequence[tuple[int, int]]) -> None:
    """Samples on the circle, proxies outside of it, and an edge for each comparison."""
    draw_circle(axes, 1.0)
    for a, b in edges:
        pull = bool(labels[a] == labels[b])
        axes.plot(x[[a, b], 0], x[[a, b], 1], color=ink(), alpha=1.0 if pull else 0.5, zorder=1,
                  linewidth=1.5 if pull else 0.5, linestyle="-" if pull else "--")  # fmt: skip
    colours, first = [COLOURS[label] for label in labels], len(LABELS)
    axes.scatter(x[:first, 0], x[:first, 1], c=colours[:first], s=45, zorder=3)
    axes.scatter(x[first:, 0], x[first:, 1], c=colours[first:], s=80, marker="*", zorder=3)
    axes.set_title(title, fontsize=10)
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
    axes.set_axis_off()
