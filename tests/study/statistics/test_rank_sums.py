"""Rank sums against known values."""

from similis.study.statistics.rank_sums import rank_sums


def test_rank_sums_share_ties():
    lines = rank_sums([{"a": 1.0, "b": 1.0, "c": 0.0}, {"a": 2.0, "b": 1.0, "c": 0.0}])
    assert [(line.name, line.ranks) for line in lines] == [("a", (1.5, 1.0)), ("b", (1.5, 2.0)), ("c", (3.0, 3.0))]
