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


def test_differences_are_contestant_minus_reference_for_the_baseline_and_the_best(out, drawn):
    judged = judge(against="b")
    shown = pictures.difference_pictures(judged, out)
    assert list(drawn) == ["Differences to b", "Differences to a"]
    assert drawn["Differences to b"]["a, 100.0 %"].difference == pytest.approx(50.0)
    assert drawn["Differences to a"]["b, 50.0 %"].difference == pytest.approx(-50.0)
    for rows in drawn.values():
        for row in rows.values():
            assert row.near[0] <= row.difference <= row.near[1]
            assert row.repetitions == pytest.approx([row.difference] * 3)
    assert ["over 2 comparisons" in each.caption for each in shown] == [True, False]


def test_without_a_baseline_there_is_one_picture_of_differences(out, drawn):
    assert len(pictures.difference_pictures(judge(), out)) == 1
    assert list(drawn) == ["Differences to a"]


def test_a_tuning_curve_is_the_mean_of_the_best_so_far(out):
    searches = {
        "a": [search("a", 0, {}, values=[0.2, None, 0.5, 0.1]), search("a", 1, {}, values=[0.4, 0.6, 0.3])],
        "fixed": [search("fixed", 0, {}, values=[])],
    }
    shown = pictures.tuning_picture(searches, ["a"], on_test=False, out=out)
    assert shown is not None
    assert shown.alt == "Best R@1 so far by trial: a ends at 55.0"
    assert pictures.tuning_picture({"a": [search("a", 0, {}, values=[0.2])]}, ["a"], on_test=False, out=out) is None
