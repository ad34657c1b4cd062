"""Rank tests, interquartile means and rank sums against known values."""

from __future__ import annotations

import numpy as np
import pytest

from similis.study.components import Scores
from similis.study.ranks import interquartile_mean, probability_of_improvement, rank_sums, rank_test
from similis.values import UserError

# Four classifiers on 14 data sets with the mean ranks of Demsar's example (JMLR 2006, section 3.2.2).
DEMSAR = np.array([
    [.763, .768, .771, .798], [.599, .591, .590, .569], [.954, .971, .968, .967], [.628, .661, .654, .657],
    [.882, .888, .886, .898], [.936, .931, .916, .931], [.661, .668, .609, .685], [.583, .583, .563, .625],
    [.775, .838, .866, .875], [1.0, 1.0, 1.0, 1.0], [.940, .962, .965, .962], [.619, .666, .614, .669],
    [.972, .981, .9751, .975], [.957, .978, .946, .970],
])  # fmt: skip


def test_demsars_example():
    found = rank_test(Scores(("c45", "m", "cf", "mcf"), DEMSAR.T[:, :, None], np.ones(14)))
    assert found.mean_ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert found.critical == pytest.approx(1.25, abs=0.01)  # Demsar's critical difference at 5 %
    chi2 = 12 * 14 / (4 * 5) * ((found.mean_ranks**2).sum() - 4 * 5**2 / 4)
    assert chi2 == pytest.approx(9.28, abs=0.01)  # Demsar's
    assert found.friedman_p < 0.026  # his without the correction for ties, which can only lower it
    assert found.pairs_p.shape == (4, 4)
    assert found.pairs_p[0, 3] == pytest.approx(found.pairs_p[3, 0])


def test_ties_everywhere_are_no_difference():
    found = rank_test(Scores(("a", "b", "c"), np.full((3, 4, 2), 0.5), np.ones(4)))
    assert found.friedman_p == 1.0
    assert found.mean_ranks.tolist() == [2.0, 2.0, 2.0]


def test_two_losses_are_too_few():
    with pytest.raises(UserError, match="three or more"):
        rank_test(Scores(("a", "b"), np.zeros((2, 4, 2)), np.ones(4)))


def test_interquartile_mean_forgets_the_ends():
    assert interquartile_mean(np.array([-100.0, 1.0, 2.0, 3.0, 4.0, 100.0, 2.5, 2.5])) == pytest.approx(2.5)


def test_probability_of_improvement_is_symmetric():
    a, b = np.random.default_rng(0).random((2, 7))
    assert probability_of_improvement(a, b) + probability_of_improvement(b, a) == pytest.approx(1)


def test_rank_sums_share_ties_and_refuse_gaps():
    lines = rank_sums([{"a": 1.0, "b": 1.0, "c": 0.0}, {"a": 2.0, "b": 1.0, "c": 0.0}])
    assert [(line.name, line.ranks) for line in lines] == [("a", (1.5, 1.0)), ("b", (1.5, 2.0)), ("c", (3.0, 3.0))]
    with pytest.raises(UserError, match="every loss"):
        rank_sums([{"a": 1.0}, {"b": 1.0}])
