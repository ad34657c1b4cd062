"""Pictures of the report: what is drawn is what the records and verdicts hold."""

from __future__ import annotations

import pytest

from similis.study.report import pictures
from tests.study.report.test_tables import judge, search


@pytest.fixture
def out(tmp_path):
    (tmp_path / "figures").mkdir()
    return tmp_path


@pytest.fixture
def drawn(monkeypatch):
    """Rows of every forest plot, by title."""
    kept = {}
    draw = pictures.draw_forest

    def keep(rows, title, **options):
        kept[title.partition(" (")[0]] = {row.name: row for row in rows}
        return draw(rows, title, **options)

    monkeypatch.setattr(pictures, "draw_forest", keep)
    return kept


@pytest.mark.parametrize(("against", "reference", "row", "points", "pairs"),
                         [("b", "b", "a, 100.0 %", 50.0, 2), (None, "a", "b, 50.0 %", -50.0, 3)])  # fmt: skip
def test_differences_are_contestant_minus_the_baseline_or_the_best(out, drawn, against, reference, row, points, pairs):
    shown = pictures.difference_picture(judge(against=against), out)
    ((title, rows),) = drawn.items()
    assert title == f"Differences to {reference}"
    assert rows[row].difference == pytest.approx(points)
    for each in rows.values():
        assert each.near[0] <= each.difference <= each.near[1]
        assert each.repetitions == pytest.approx([each.difference] * 3)
    assert f"over {pairs} comparisons" in shown.caption


def test_a_tuning_curve_is_the_mean_of_the_best_so_far(out):
    searches = {
        "a": [search("a", 0, {}, values=[0.2, None, 0.5, 0.1]), search("a", 1, {}, values=[0.4, 0.6, 0.3])],
        "fixed": [search("fixed", 0, {}, values=[])],
    }
    shown = pictures.tuning_picture(searches, ["a"], on_test=False, out=out)
    assert shown is not None
    assert shown.alt == "Best R@1 so far by trial: a ends at 55.0"
    assert pictures.tuning_picture({"a": [search("a", 0, {}, values=[0.2])]}, ["a"], on_test=False, out=out) is None
