"""How forces are drawn: circle, points, arrows, a legend, the formula."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from similis.figures.canvas import COLOURS, ink, new_figure, save_figure, shrink_to_fit
from similis.figures.forces import Forces, PointForces, Settings, forces
from similis.figures.formula import formula_of_form, to_mathtext
from similis.registry import losses
from similis.values import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RING = 1.32  # proxies are drawn outside the samples' circle: only their direction counts
SHORTEST, LONGEST = 0.12, 0.38  # the shortest arrow still shows its head beside the marker
STILL = 0.01  # of the strongest force


def draw_forces(name: str, *, form: str | None = None, settings: Settings = None) -> Figure:
    """The force picture of a loss: samples on the circle, proxies on a ring around it, arrows for minus the gradient.

    Args:
        name: a registered loss; ``similis losses`` lists them.
        form: one of its forms; None for the first.
        settings: options of the loss that differ from those of the form.

    Example:
        >>> len(draw_forces("triplet").axes)
        1
    """
    acting, entry = forces(name, form=form, settings=settings), losses.get(name)
    figure = new_figure(6.0, 6.8)
    lines = to_mathtext(formula_of_form(entry.function, acting.form))
    bottom = 0.035 + (0.1 if len(lines) < 2 else 0.15)
    axes = figure.add_axes((0.02, bottom, 0.96, 0.9 - bottom))
    draw_batch(axes, acting)
    draw_legend(axes, acting)
    draw_notes(axes, acting)
    draw_titles(figure, acting, entry.summary)
    draw_formula(figure, lines, bottom)
    return figure


def draw_batch(axes: Axes, acting: Forces, size: float = 70.0) -> None:
    """Samples on the circle and proxies on the ring around it, with their arrows; ``size`` is that of a marker."""
    draw_circle(axes, 1.0)
    draw_points(axes, acting.samples, radius=1.0, marker="o", size=size)
    if acting.proxies is not None:
        draw_circle(axes, RING, style=":")
        many = len(acting.proxies.points) > len(set(acting.proxies.classes.tolist()))
        shape, area = ("D", 0.64) if many else ("*", 2.7)
        draw_points(axes, acting.proxies, radius=RING, marker=shape, size=area * size)
    limit = (1.0 if acting.proxies is None else RING) + LONGEST
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    axes.set_axis_off()


def save_forces(name: str, path: str | Path, *, form: str | None = None, settings: Settings = None) -> Path:
    """Write the force picture of a loss; the ending of ``path`` chooses png, svg or pdf."""
    target = Path(path)
    if target.suffix not in (".png", ".svg", ".pdf"):
        raise UserError(f"a picture ends in .png, .svg or .pdf, not {target.suffix!r}; for example forces.png")
    return save_figure(draw_forces(name, form=form, settings=settings), target)


def draw_circle(axes: Axes, radius: float, style: str = "-") -> None:
    """A thin grey circle around the origin."""
    from matplotlib.patches import Circle

    axes.add_patch(
        Circle((0.0, 0.0), radius, fill=False, edgecolor=ink(), alpha=0.3, linestyle=style, linewidth=1.0, zorder=0)
    )


def draw_points(axes: Axes, moved: PointForces, *, radius: float, marker: str, size: float) -> None:
    """Points in the colours of their classes with an arrow each; a white heart where nothing moves."""
    for place, label, force, strength in zip(
        moved.points.tolist(), moved.classes.tolist(), moved.forces, moved.strength.tolist(), strict=True
    ):
        x, y = (radius * coordinate for coordinate in place)
        axes.scatter([x], [y], s=size, marker=marker, color=COLOURS[label], edgecolor=ink(), zorder=3,
                     linewidth=min(0.6, size / 60))  # fmt: skip
        if strength < STILL:
            axes.scatter([x], [y], s=0.17 * size, marker="o", color="white", edgecolor=COLOURS[label], zorder=4)
            continue
        length = SHORTEST + (LONGEST - SHORTEST) * strength**0.5
        dx, dy = (force / force.norm() * length).tolist()
        axes.annotate(
            "",
            xy=(x + dx, y + dy),
            xytext=(x, y),
            annotation_clip=False,
            arrowprops={"arrowstyle": "-|>", "color": COLOURS[label], "linewidth": min(1.8, 0.22 * size**0.5),
                        "mutation_scale": min(13.0, 1.6 * size**0.5), "shrinkA": 0.0, "shrinkB": 0.0},
            zorder=2,
        )  # fmt: skip


def draw_legend(axes: Axes, acting: Forces) -> None:
    """What the signs mean, in the empty middle of the circle."""
    from matplotlib.lines import Line2D

    def sign(marker: str, label: str, colour: str = "0.5", size: float = 8.0) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, color=colour, markersize=size, markeredgecolor="black",
                      markeredgewidth=0.6, label=label)  # fmt: skip

    handles = [sign("o", f"class {label}", COLOURS[label]) for label in sorted(set(acting.samples.classes.tolist()))]
    if acting.proxies is not None:
        many = len(acting.proxies.points) > len(handles)
        handles.append(sign("D", "proxies", size=6.0) if many else sign("*", "proxy", size=12.0))
    handles.append(Line2D([], [], color="0.4", marker=">", label="minus gradient", linewidth=1.8))
    handles.append(Line2D([], [], linestyle="", marker="o", markersize=8, markerfacecolor="white", markeredgewidth=2.5,
                          markeredgecolor="0.5", label="hardly moves (< 1 %)"))  # fmt: skip
    axes.legend(handles=handles, loc="center", frameon=False, fontsize=8.5, bbox_to_anchor=(0.5, 0.53))


def draw_notes(axes: Axes, acting: Forces) -> None:
    """The loss's value, and the direction in which each learned number moves."""
    lines = [f"loss {acting.value:.3g}"]
    for name, force in acting.numbers.items():
        way = "rises" if force > 0 else "falls" if force < 0 else "stays"
        lines.append(f"learned {name} {way}")
    axes.text(0.0, -0.5, "\n".join(lines), ha="center", va="center", fontsize=8.5, color="0.25")


def draw_titles(figure: Figure, acting: Forces, summary: str) -> None:
    """Name and form, what it does in one sentence, and how to read the arrows."""
    form = "" if acting.form == "default" else f"  ({acting.form})"
    figure.text(0.5, 0.965, f"{acting.name}{form}", ha="center", va="center", fontsize=15, weight="bold")
    shrink_to_fit(figure, figure.text(0.5, 0.925, summary, ha="center", va="center", fontsize=10, color="0.25"))
    note = "arrows grow with the square root of the strength"
    moved = acting.samples
    if (moved.points * moved.forces).sum(1).abs().max() > 1e-9 * moved.forces.norm(dim=1).max():  # along the radius
        note += "; raw vectors: arrows may leave the circle"
    if acting.changed:
        note += "; drawn with " + ", ".join(f"{key}={value}" for key, value in acting.changed.items())
    figure.text(0.5, 0.014, note, ha="center", va="center", fontsize=7, color="0.45")


def draw_formula(figure: Figure, lines: list[str], top: float) -> None:
    """The lines of a formula between the note and ``top``, each as large as fits."""
    room = (top - 0.03) / max(len(lines), 1)
    for number, line in enumerate(lines):
        text = figure.text(0.5, top - room * (number + 0.5), line, ha="center", va="center", fontsize=12)
        shrink_to_fit(figure, text, room)
