"""Interquartile means, the probability of improvement and rank sums against known values."""

import numpy as np
import pytest

from similis.study.statistics.rank_sums import interquartile_mean, probability_of_improvement, rank_sums


def test_interquartile_mean_forgets_the_ends():
    assert interquartile_mean(np.array([-100.0, 1.0, 2.0, 3.0, 4.0, 100.0, 2.5, 2.5])) == pytest.approx(2.5)


def test_probability_of_improvement_is_symmetric():
    a, b = np.random.default_rng(0).random((2, 7))
    assert probability_of_improvement(a, b) + probability_of_improvement(b, a) == pytest.approx(1)


def test_rank_sums_share_ties():
    lines = rank_sums([{"a": 1.0, "b": 1.0, "c": 0.0}, {"a": 2.0, "b": 1.0, "c": 0.0}])
    assert [(line.name, line.ranks) for line in lines] == [("a", (1.5, 1.0)), ("b", (1.5, 2.0)), ("c", (3.0, 3.0))]
