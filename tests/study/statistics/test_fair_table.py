"""A fair table: intervals of its rows, and whether its repetitions are pairs."""

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
    assert wild[:4] == pytest.approx(calm[:4])
    assert wild[4] > 4 * calm[4]


@pytest.mark.parametrize("other", [{"seed": 9}, {"data": {"validation_seed": 9}}])
def test_repetitions_are_pairs_if_every_draw_is_shared(other):
    rows = [record(name, each) for name in "abc" for each in range(3)]
    assert fair_table(rows).scores.paired
    rows[-1]["spec"] |= other
    assert not fair_table(rows).scores.paired
