"""Table 11 of the thesis, recomputed from its own tables, and the errors in it."""

import pytest

from tests.study.statistics.thesis import all_experiments, cells, errata, recalls, table11

TOTALS = {
    "proxy_anchor": 12, "soft_triple": 38, "multi_similarity": 51, "contrastive": 52, "lifted": 54,
    "margin": 70, "arcface": 79, "proxy_nca": 81, "triplet": 103, "npair": 120,
}  # fmt: skip


def test_all_ten_totals_agree_with_the_print():
    lines = table11()
    assert {line.name: line.total for line in lines} == TOTALS
    assert [line.name for line in lines] == list(TOTALS)
    assert sum(line.total for line in lines) == 12 * 55


def test_ranks_of_single_experiments():
    ranks = {line.name: line.ranks for line in table11()}
    assert ranks["soft_triple"] == (2, 2, 3, 3, 4, 2, 2, 2, 4, 5, 4, 5)
    assert ranks["arcface"] == (8, 7, 8, 6, 9, 8, 8, 8, 7, 6, 2, 2)


def test_exactly_three_printed_figures_are_wrong():
    assert [(e.loss, e.figure, e.printed) for e in errata()] == [
        ("lifted", "std", 1.89), ("soft_triple", "mean", 3.16), ("triplet", "mean", 8.85),
    ]  # fmt: skip
    assert [e.recomputed for e in errata()] == pytest.approx([1.8829, 3.1667, 8.5833], abs=5e-5)


def test_by_recall_at_8_the_middle_changes():
    totals = {line.name: line.total for line in table11("R@8")}
    assert (totals["lifted"], totals["margin"], totals["contrastive"]) == (58.5, 64, 66.5)
    assert (totals["triplet"], totals["arcface"], totals["proxy_nca"], totals["npair"]) == (84, 91.5, 96.5, 116)


def test_over_all_28_experiments():
    lines = all_experiments()
    assert len(lines[0].ranks) == 28
    assert [line.total for line in lines] == [33, 70, 99, 130, 141, 161, 187, 193, 246, 280]


def test_impossible_cells_are_dropped():
    assert "arcface" in recalls("SOP", "BNInception", 128)
    assert "arcface" not in recalls("SOP", "BNInception", 128, "R@10")
    assert len(cells(suspicious=True)) - len(cells()) == 7
