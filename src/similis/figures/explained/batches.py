"""What a loss takes from a batch: edges between samples and proxies, and the triplets that miners pick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from similis.figures.canvas import COLOURS, new_figure, new_grid
from similis.figures.force_plot import RING, draw_circle
from similis.figures.forces import DEGREES, LABELS, MOST, PROXY_DEGREES, proxy_places, unit_vectors
from similis.registry import miners

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POSITIVE, MARGIN = 0.55, 0.2  # similarity of the anchor's positive, and the margin of the zones
MINERS = ("batch_hard", "semi_hard", "semi_hard_band", "distance_weighted", "random")
PULL, PUSH = COLOURS[0], COLOURS[1]


def mined_batch() -> tuple[Tensor, Tensor]:
    """An anchor (row 0), eight positives of one similarity, 24 negatives of other classes: unit vectors and labels."""
    similarities = torch.cat([torch.full((8,), POSITIVE), torch.linspace(-0.6, 0.9, 24)]).double()
    x = torch.eye(33, dtype=torch.float64)
    for row, similarity in enumerate(similarities.tolist(), 1):
        x[row] = similarity * x[0] + (1 - similarity**2) ** 0.5 * x[row]
    return x, torch.tensor([0] * 9 + list(range(1, 25)))


def mined_negatives(name: str) -> Tensor:
    """Similarities to the anchor of the negatives that a miner picks for it."""
    x, labels = mined_batch()
    same, other = labels[:, None] == labels, ~torch.eye(len(labels), dtype=torch.bool)
    options: dict[str, dict[str, Any]] = {"semi_hard_band": {"margin": MARGIN}, "distance_weighted": {"dim": 3}}
    found = miners.get(name).function(x @ x.T, same & other, ~same, **options.get(name, {}))
    return (x @ x.T)[0, found.negatives[found.anchors == 0]]


def draw_zones() -> Figure:
    """Easy, semi-hard and hard negatives of one anchor, and which of them each miner picks."""
    x, labels = mined_batch()
    every = (x @ x.T)[0, labels != 0]
    figure = new_figure(8.0, 3.4)
    axes = figure.add_subplot()
    zones = {"easy": (-0.65, POSITIVE - MARGIN), "semi-hard": (POSITIVE - MARGIN, POSITIVE), "hard": (POSITIVE, 0.95)}
    for (zone, ends), colour in zip(zones.items(), (COLOURS[2], COLOURS[4], COLOURS[1]), strict=True):
        axes.axvspan(*ends, color=colour, alpha=0.18, linewidth=0)
        axes.text(sum(ends) / 2, -0.85, zone, ha="center", fontsize=9)
    for row, name in enumerate(MINERS):
        picked = mined_negatives(name)
        axes.scatter(every, [row] * len(every), s=26, facecolor="none", edgecolor="0.6", linewidth=0.8)
        axes.scatter(picked, [row] * len(picked), s=46, color=PUSH, zorder=3)
    axes.axvline(POSITIVE, color=PULL, label="eight positives")
    axes.axvline(POSITIVE - MARGIN, color=PULL, linestyle=":", label="less the margin")
    names = [name + ", dim 3" * (name == "distance_weighted") for name in MINERS]
    axes.set_yticks(range(len(MINERS)), names)
    axes.set(xlim=(-0.65, 0.95), ylim=(len(MINERS) - 0.4, -1.1), xlabel="similarity of a negative to the anchor")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    figure.tight_layout()
    return figure


def draw_edges() -> Figure:
    """The comparisons that four kinds of losses make in one batch, as edges with their number."""
    x, labels = unit_vectors(DEGREES), torch.tensor(LABELS)
    same, other = labels[:, None] == labels, ~torch.eye(len(labels), dtype=torch.bool)
    triplets = miners.get("all_triplets").function(x @ x.T, same & other, ~same)
    figure, panels = new_grid(4, 4, 2.5, 2.9)
    count = len(LABELS) * (len(LABELS) - 1) // 2
    draw_pairs(panels[0], x, labels, range(len(labels)))
    panels[0].set_title(f"pairs\n{count} of 9 samples", fontsize=10)
    draw_pairs(panels[1], x, labels, [0])
    panels[1].set_title(f"triplets\n{len(triplets.anchors)}; one anchor's shown", fontsize=10)
    for axes, number, title in ((panels[2], 1, "proxies"), (panels[3], MOST, f"{MOST} proxies a class")):
        places, own = proxy_places(number), torch.arange(len(PROXY_DEGREES)).repeat_interleave(number)
        for start, label in zip(x, labels, strict=True):
            for end, of in zip(places * RING, own, strict=True):
                draw_edge(axes, start, end, pull=bool(of == label))
        marker = "*" if number == 1 else "D"
        axes.scatter(
            RING * places[:, 0], RING * places[:, 1], c=[COLOURS[c] for c in own], marker=marker, s=60, zorder=3
        )
        axes.set_title(f"{title}\n{len(x) * len(places)}", fontsize=10)
    for axes in panels:
        draw_circle(axes, 1.0)
        axes.scatter(
            x[:, 0], x[:, 1], c=[COLOURS[label] for label in LABELS], s=45, edgecolor="black", linewidth=0.6, zorder=3
        )
        axes.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
        axes.set_axis_off()
    return figure


def draw_pairs(axes: Axes, x: Tensor, labels: Tensor, anchors: range | list[int]) -> None:
    """An edge from each anchor to every later or, for a single anchor, every other sample."""
    for a in anchors:
        for b in range(len(x)):
            if b > a or (len(anchors) == 1 and b != a):
                draw_edge(axes, x[a], x[b], pull=bool(labels[a] == labels[b]))


def draw_edge(axes: Axes, start: Tensor, end: Tensor, *, pull: bool) -> None:
    """A solid line for a pair that is pulled together, a thin dashed one for a pair that is pushed apart."""
    (x, y), (u, v) = start.tolist(), end.tolist()
    axes.plot([x, u], [y, v], color=PULL if pull else PUSH, linewidth=1.6 if pull else 0.5,
              linestyle="-" if pull else "--", zorder=1)  # fmt: skip
