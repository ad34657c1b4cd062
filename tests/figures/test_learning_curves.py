"""Learning curves show what the metrics hold, stage by stage."""

import pytest

from similis.figures.learning_curves import draw_curves, read_curves, running_mean
from similis.values import DataError

RECORDS = [
    *({"stage": "select", "step": step, "loss": 10.0 - step} for step in range(1, 5)),
    {"stage": "select", "step": 2, "epoch": 1, "recall@1": 0.5},
    {"stage": "select", "step": 4, "epoch": 2, "recall@1": 0.25},
    *({"stage": "refit", "step": step, "loss": 5.0} for step in range(1, 4)),
    {"stage": "test", "step": 0, "opened": "test split", "images": 3},
]


def test_lines_of_the_metrics_become_one_curve_for_each_stage():
    select, refit = read_curves(RECORDS)
    assert (select.steps, select.losses) == ((1, 2, 3, 4), (9.0, 8.0, 7.0, 6.0))
    assert (select.epochs, select.recalls) == ((1, 2), (0.5, 0.25))
    assert (refit.stage, refit.steps, refit.recalls) == ("refit", (1, 2, 3), ())


def test_the_picture_draws_loss_over_epochs_and_marks_the_chosen_one():
    figure = draw_curves(read_curves(RECORDS), chosen=1, measured_on="validation classes", title="a run")
    above, below = figure.axes
    assert above.lines[0].get_xdata().tolist() == [0.5, 1.0, 1.5, 2.0]  # two steps make an epoch
    assert above.lines[0].get_ydata().tolist() == [9.0, 8.0, 7.0, 6.0]
    assert above.lines[2].get_xdata()[-1] == 1.0  # the refit is as long as the chosen epoch
    assert below.lines[0].get_ydata().tolist() == [50.0, 25.0]
    assert (below.lines[1].get_xdata()[0], below.lines[1].get_ydata()[0]) == (1, 50.0)
    assert "validation classes" in below.get_ylabel()


def test_without_validation_only_the_loss_is_drawn():
    records = [r for r in RECORDS if "recall@1" not in r]
    assert len(draw_curves(read_curves(records), chosen=2, measured_on="").axes) == 1


def test_nothing_to_draw_is_an_error():
    with pytest.raises(DataError, match="no step"):
        draw_curves(read_curves([]), chosen=0, measured_on="")


def test_running_mean_is_shorter_at_the_beginning():
    assert running_mean([2.0, 4.0, 6.0, 8.0], 3) == [2.0, 3.0, 4.0, 6.0]
