"""The committed figures of ``docs/explained.md`` and of the gallery: ``python -m docs.generator.explained``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs.generator.drawn import batches, margins, pair_weights, steps
from docs.generator.panels import colour_scheme
from similis.figures.canvas import new_figure, save_figure
from similis.figures.force_plot import draw_batch
from similis.figures.forces import forces
from similis.registry import losses

PICTURES = Path(__file__).parents[1] / "pictures"
FIGURES: dict[str, Callable[[], Any]] = {
    "forces": steps.draw_all_forces,
    "edges": batches.draw_edges,
    "zones": batches.draw_zones,
    "pair-weights": pair_weights.draw_pair_weights,
    "wedges": margins.draw_wedges,
    "one-margin": margins.draw_one_margin,
    "scales": pair_weights.draw_scales,
    "steps": steps.draw_steps,
}


def draw_thumbnail(name: str) -> Any:
    """Points and arrows of a loss, without words."""
    figure = new_figure(1.6, 1.6)
    draw_batch(figure.add_axes((0, 0, 1, 1)), forces(name), size=22.0)
    return figure


def main() -> None:
    """Write every figure twice, for light and for dark pages."""
    made: dict[str, Callable[[], Any]] = {f"explained/{name}": draw for name, draw in FIGURES.items()}
    made |= {f"losses/{entry.name}": lambda name=entry.name: draw_thumbnail(name) for entry in losses}
    for name, draw in made.items():
        for end, dark in (("", False), ("-dark", True)):
            with colour_scheme(dark=dark):
                save_figure(draw(), PICTURES / f"{name}{end}.svg")


if __name__ == "__main__":
    main()
