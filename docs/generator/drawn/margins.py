"""Margins: what they ask for, in which geometry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from docs.generator.panels import new_grid
from similis.figures.canvas import COLOURS, ink, new_figure
from similis.figures.force_plot import draw_circle
from similis.figures.forces import unit_vectors
from similis.values import Triplets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROXIES = (0.0, 80.0)  # degrees of the two classes
WEDGES: dict[str, dict[str, Any]] = {"normface": {"scale": 16.0}, "cosface": {"scale": 16.0, "margin_cos": 0.35},
          "arcface": {"scale": 16.0, "margin_deg": 28.6}}  # fmt: skip
MARGIN = 0.3
GEOMETRIES = {"cosine": "of cosines (triplet, as CosFace)", "euclid": "of distances (triplet)",
              "euclid2": "of squared distances (triplet)", "angle": "of angles, in radians (arcface)"}  # fmt: skip


def satisfied_angles(name: str, label: int) -> Tensor:
    """Degrees at which the logit of a sample's own class is the larger one: its loss is below log 2."""
    from similis.objective.loss import loss

    made = loss(name, num_classes=2, dim=2, **WEDGES[name]).double()
    with torch.no_grad():
        made.learned["proxies"].copy_(unit_vectors(PROXIES))
        degrees = torch.arange(-139.0, 219.0, 0.25, dtype=torch.float64)
        values = [made(unit_vectors([float(each)]), torch.tensor([label])).item() for each in degrees]
    return degrees[torch.tensor(values) < math.log(2)]


def draw_wedges() -> Figure:
    """Where samples of two classes are satisfied with NormFace, CosFace and ArcFace."""
    from matplotlib.patches import Wedge

    figure, panels = new_grid(len(WEDGES), len(WEDGES), 2.4, 3.1)
    for axes, name in zip(panels, WEDGES, strict=True):
        draw_circle(axes, 1.0)
        found = [satisfied_angles(name, label) for label in (0, 1)]
        for label, (inside, colour) in enumerate(zip(found, COLOURS, strict=False)):
            axes.add_patch(Wedge((0, 0), 1.0, float(inside.min()), float(inside.max()), color=colour, alpha=0.3))
            x, y = unit_vectors([PROXIES[label]])[0].tolist()
            axes.scatter([x], [y], marker="*", s=160, color=colour, edgecolor=ink(), zorder=3)
        between = float(found[1].min() - found[0].max())
        margin = "".join(f"{key} {value:g}" for key, value in WEDGES[name].items() if key != "scale")
        axes.set_title(f"{name}\n{margin or 'no margin'}\n{between:.0f} degrees apart", fontsize=9)
        axes.set(xlim=(-1.05, 1.2), ylim=(-1.05, 1.2), aspect="equal")
        axes.set_axis_off()
    return figure


def needed_angle(geometry: str, positive: float, margin: float = MARGIN) -> float:
    """Degrees from which on a negative has no loss if its positive is at ``positive`` degrees; NaN for none."""
    from similis.objective.loss import loss
    from similis.objective.losses.triplet import triplet

    if geometry == "angle":
        made = loss("arcface", num_classes=2, dim=2, scale=16.0, margin_deg=math.degrees(margin)).double()
    for half in range(round(2 * positive), 361):
        degrees = half / 2
        x = unit_vectors([0.0, positive, degrees])
        if geometry == "angle":  # the sample lies at 0, the proxies where the others are
            with torch.no_grad():
                made.learned["proxies"].copy_(x[1:])
            free = made(x[:1], torch.tensor([0])).item() <= math.log(2) + 1e-12
        else:
            one = Triplets(*(torch.tensor([row]) for row in range(3)))
            value = triplet(x, torch.tensor([0, 0, 1]), tuples=one, geometry=geometry, margin=margin, sphere=True)  # type: ignore[arg-type]
            free = value.item() <= 1e-12
        if free:
            return degrees
    return math.nan


def draw_one_margin() -> Figure:
    """How much farther a negative must be than its positive, for one number as a margin of four kinds."""
    figure = new_figure(6.4, 3.6)
    axes = figure.add_subplot()
    degrees = list(range(0, 176, 5))
    for colour, dash, (geometry, words) in zip(COLOURS, ("-", "--", "-.", ":"), GEOMETRIES.items(), strict=False):
        apart = [needed_angle(geometry, float(each)) - each for each in degrees]
        axes.plot(degrees, apart, color=colour, linestyle=dash, label=words)
    axes.set(xlabel="angle of the positive, degrees", ylabel="the negative must be farther by, degrees")
    axes.set_title(f"margin {MARGIN:g}", fontsize=10)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8, loc="lower center", ncols=2)
    figure.tight_layout()
    return figure
