"""Curves, maps and recall plots hold what they are given."""

import numpy as np
import pytest
import torch

from similis.figures.embedding_map import principal_plane
from similis.figures.forest_plot import ForestRow, draw_forest
from similis.figures.learning_curves import draw_curves, read_curves, running_mean
from similis.figures.recall_plots import draw_progress, draw_recall_lines, line_style
from similis.figures.verification_plot import draw_verification
from similis.retrieval.verification import verify
from similis.values import DataError, UserError

RECORDS = [
    *({"stage": "select", "step": step, "loss": 10.0 - step} for step in range(1, 5)),
    {"stage": "select", "step": 2, "epoch": 1, "recall@1": 0.5},
    {"stage": "select", "step": 4, "epoch": 2, "recall@1": 0.25},
    *({"stage": "refit", "step": step, "loss": 5.0} for step in range(1, 4)),
    {"stage": "test", "step": 0, "opened": "test split", "images": 3},
]


def test_recalls_of_interpolated_weights_are_no_part_of_a_curve():
    """``--recipe careful`` logs the recall of every share of the training, which belongs to no epoch."""
    shares = [{"stage": "select", "step": 0, "share": 0.5, "recall@1": 0.9}]
    assert read_curves([*RECORDS, *shares]) == read_curves(RECORDS)


def test_lines_of_the_metrics_become_one_curve_for_each_stage():
    select, refit = read_curves(RECORDS)
    assert select.losses == {1: 9.0, 2: 8.0, 3: 7.0, 4: 6.0}
    assert select.recalls == {1: 0.5, 2: 0.25}
    assert (refit.stage, list(refit.losses), refit.recalls) == ("refit", [1, 2, 3], {})


def test_the_picture_draws_loss_over_epochs_and_marks_the_chosen_one():
    figure = draw_curves(read_curves(RECORDS), chosen=1, measured_on="validation classes", title="a run")
    above, below = figure.axes
    assert above.lines[0].get_xdata().tolist() == [0.5, 1.0, 1.5, 2.0]  # two steps make an epoch
    assert above.lines[0].get_ydata().tolist() == [9.0, 8.0, 7.0, 6.0]
    assert above.lines[2].get_xdata()[-1] == 1.0  # the refit is as long as the chosen epoch
    assert below.lines[0].get_ydata().tolist() == [50.0, 25.0]
    assert (below.lines[1].get_xdata()[0], below.lines[1].get_ydata()[0]) == (1, 50.0)
    assert below.lines[0].get_label() == "validation classes"
    assert all(tick == int(tick) for tick in below.get_xticks())
    assert below.get_ylim()[1] == 100


def test_the_test_classes_have_a_dashed_line_before_training_and_a_point_after():
    test = {"pretrained": 0.5, "trained": 0.75}
    below = draw_curves(read_curves(RECORDS), chosen=2, measured_on="validation classes", test=test).axes[1]
    line, point = below.lines[2:]
    assert (line.get_linestyle(), list(line.get_ydata())) == ("--", [50.0, 50.0])
    assert (point.get_xdata().tolist(), point.get_ydata().tolist()) == ([2], [75.0])
    words = [text.get_text() for text in below.get_legend().get_texts()]
    assert words[2:] == ["test classes, pretrained: 50.0 %", "test classes, trained: 75.0 %"]


def test_without_validation_only_the_loss_is_drawn():
    records = [r for r in RECORDS if "recall@1" not in r]
    assert len(draw_curves(read_curves(records), chosen=2, measured_on="").axes) == 1


def test_nothing_to_draw_is_an_error():
    with pytest.raises(DataError, match="no step"):
        draw_curves(read_curves([]), chosen=0, measured_on="")


def test_running_mean_is_shorter_at_the_beginning():
    assert running_mean([2.0, 4.0, 6.0, 8.0], 3) == [2.0, 3.0, 4.0, 6.0]


NAMES = [f"loss{i}" for i in range(12)]
ROWS = [ForestRow(n, -i, (-i - 1, 1 - i), (-i - 3, 3 - i), [0.5 - i]) for i, n in enumerate(NAMES)]

FIGURES = {
    "forest": lambda: draw_forest(ROWS, "t", margin=1.0, axis="points"),
    "size": lambda: draw_recall_lines(
        {n: {"64": 50.0 + i, "512": 55.0 + i} for i, n in enumerate(NAMES)}, "t", "embedding size"
    ),
    "progress": lambda: draw_progress(
        {n: [10.0 + i, 40.0 + i, 50.0 + i] for i, n in enumerate(NAMES)}, "t", ("epoch", "R@1"), NAMES
    ),
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


def test_a_forest_plot_shows_both_intervals_every_repetition_and_the_margin():
    rows = [ForestRow("a", 2.0, (1.0, 3.0), (-1.0, 5.0), [1.5, 2.5]), ForestRow("b", -4, (-5, -3), (-8, 0), [-4])]
    axes = draw_forest(rows, "t", margin=1.5, axis="points").axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    drawn = {(tuple(line.get_xdata()), line.get_ydata()[0]) for line in axes.lines if len(line.get_xdata()) == 2}
    assert {((1.0, 3.0), 1), ((-1.0, 5.0), 1), ((-5, -3), 0), ((-8, 0), 0)} <= drawn
    dots = [list(line.get_xdata()) for line in axes.lines if line.get_marker() == "."]
    assert dots == [[1.5, 2.5], [-4]]
    assert (axes.patches[0].get_x(), axes.patches[0].get_width()) == (-1.5, 3.0)


def test_eight_curves_are_in_colour_and_the_others_grey():
    curves = {name: [1.0, 2.0] for name in NAMES} | {"empty": []}
    figure = draw_progress(curves, "t", ("trial", "R@1"), NAMES[::-1])
    grey = [line for line in figure.axes[0].lines if line.get_color() == "0.75"]
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert (len(grey), words) == (4, [*NAMES[4:], "4 others"])


VECTORS = torch.randn(60, 7, generator=torch.Generator().manual_seed(0)) * torch.tensor([5, 3, 1, 1, 1, 1, 1.0])


def test_the_plane_is_that_of_the_singular_values():
    plane, share = principal_plane(VECTORS)
    centred = (VECTORS - VECTORS.mean(0)).double().numpy()
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    assert np.abs(plane.numpy()) == pytest.approx(np.abs(left[:, :2] * values[:2]), abs=1e-6)
    assert share.numpy() == pytest.approx(values[:2] ** 2 / (values**2).sum(), rel=1e-6)


def test_turning_all_vectors_round_changes_the_map_by_no_sign():
    for vectors in (VECTORS, -VECTORS):
        plane = principal_plane(vectors)[0]
        assert all(float(column[column.abs().argmax()]) > 0 for column in plane.T)
    assert torch.allclose(plane, principal_plane(3 - VECTORS)[0], atol=1e-5)


def test_two_dimensions_or_one_are_enough():
    assert principal_plane(torch.tensor([[1.0], [3.0]]))[0].abs().tolist() == [[1.0, 0.0], [1.0, 0.0]]
    with pytest.raises(UserError, match="two images or more"):
        principal_plane(torch.zeros(1, 4))


def test_a_verification_shows_the_curve_the_pairs_and_the_threshold():
    found = verify(
        torch.nn.functional.normalize(VECTORS + 6 * torch.eye(7)[torch.arange(60) % 6]), torch.arange(60) % 6, far=0.1
    )
    curve, pairs, classes = draw_verification(found, "letters").axes
    assert curve.get_xscale() == "log"
    assert curve.lines[0].get_ydata().tolist() == found.roc[0][found.roc_far > 0].tolist()
    assert 0.2 < float(curve.lines[1].get_ydata()[0]) < 1.0
    assert pairs.lines[0].get_xdata() == [found.threshold[0.1].value] * 2
    assert all(0 < patch.get_xy()[:, 1].max() < 1 for patch in pairs.patches), "shares of either kind"
    assert sum(patch.get_height() for patch in classes.patches) == 6
