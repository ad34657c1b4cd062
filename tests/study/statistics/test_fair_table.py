"""A fair table: intervals of its rows, and fewer rows."""

import numpy as np
import pytest

from similis.study.statistics.fair_table import fair_table, own_intervals
from similis.study.statistics.variance_components import Scores
from tests.study.small import record


def scores(unstable: float) -> Scores:
    chance = np.random.default_rng(1)
    spread = np.array([1.0, 1.0, 1.0, 1.0, unstable])[:, None, None]
    values = 0.5 + 0.01 * spread * chance.standard_normal((5, 1, 5)) + 0.05 * chance.standard_normal((5, 30, 1))
    return Scores(tuple("abcde"), values, np.ones(30))


@pytest.mark.parametrize("target", [0, 1])
def test_an_unstable_contestant_widens_its_own_interval_only(target):
    calm, wild = own_intervals(scores(1.0))[target], own_intervals(scores(20.0))[target]
    assert wild[:4] == pytest.approx(calm[:4], rel=0.5)
    assert wild[4] > 4 * calm[4]


def test_keep_leaves_rows_out_and_changes_no_other():
    table = fair_table([record(name, each, hits=[each, 3, n]) for n, name in enumerate("abc") for each in range(3)])
    kept = table.keep(["c", "a"])
    assert kept.names == ("a", "c")
    assert (kept.scores.values == table.scores.values[[0, 2]]).all()
    assert kept.runs.shape == (2, 3, 3, 1)
    assert list(kept.records) == ["a", "c"]
