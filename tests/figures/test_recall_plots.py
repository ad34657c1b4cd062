"""Pictures of tournaments: what is drawn is what was given, and no legend covers it."""

import numpy as np
import pytest

from similis.figures.recall_plots import (
    draw_class_wins,
    draw_cost,
    draw_learning_curves,
    draw_recall_by_loss,
    draw_recall_lines,
    line_style,
)

NAMES = [f"loss{i}" for i in range(12)]

FIGURES = {
    "loss": lambda: draw_recall_by_loss([(n, 50.0 + i, 1.0, 3.0, [49.0, 51.0]) for i, n in enumerate(NAMES)], "t"),
    "size": lambda: draw_recall_lines(
        {n: {"64": 50.0 + i, "512": 55.0 + i} for i, n in enumerate(NAMES)}, "t", "embedding size"
    ),
    "curves": lambda: draw_learning_curves({n: [10.0 + i, 40.0 + i, 50.0 + i] for i, n in enumerate(NAMES)}, "t"),
    "cost": lambda: draw_cost([(n, 10.0 + i, 50.0 + i) for i, n in enumerate(NAMES)], "t"),
}


@pytest.mark.parametrize("kind", FIGURES)
def test_the_legend_lies_outside_the_data(kind):
    figure = FIGURES[kind]()
    drawn = figure.canvas.get_renderer()
    figure.draw(drawn)
    legend = figure.legends[0].get_window_extent(drawn)
    assert not legend.overlaps(figure.axes[0].get_tightbbox(drawn))
    width, height = figure.get_size_inches() * figure.dpi
    assert legend.x1 <= width + 1
    assert legend.y1 <= height + 1


def test_every_line_can_be_told_apart_without_colour():
    assert len({line_style(i)[1:] for i in range(24)}) == 24


def test_class_wins_has_a_bar_and_a_photo_for_each_class():
    photo = np.zeros((4, 4, 3), dtype=np.uint8)
    figure = draw_class_wins([("a", 10.0, photo), ("b", -5.0, None)], "t", "points")
    assert [bar.get_width() for bar in figure.axes[0].patches] == [-5.0, 10.0]
    assert len(figure.axes) == 2
