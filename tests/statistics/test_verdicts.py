"""The judgement of single pairs: by hand, at ties, with too few repetitions, and Holm's correction."""

import numpy as np
import pytest
from scipy import stats

from similis.study.statistics.significance import TARGETS, holm, judge
from similis.study.statistics.variance_components import Scores, variance_components


def test_a_pair_by_hand():
    """Two losses, two classes of unequal size, three repetitions, in plain arithmetic."""
    y = np.array([[[0.4, 0.6, 0.5], [0.8, 0.8, 0.8]], [[0.2, 0.2, 0.2], [0.5, 0.9, 0.7]]])
    scores = Scores(("a", "b"), y, np.array([30.0, 10.0]))
    found = variance_components(scores)
    a, b = np.array([0.5, 0.65, 0.575]), np.array([0.275, 0.375, 0.325])  # .75 * class 0 + .25 * class 1
    assert found.difference[0, 1] == pytest.approx(a.mean() - b.mean())
    assert found.repetition[0, 1] == pytest.approx((a.var(ddof=1) + b.var(ddof=1)) / 3)
    S, T = a.var(ddof=1), b.var(ddof=1)
    assert found.freedom[0, 1] == pytest.approx((S + T) ** 2 / (S**2 / 2 + T**2 / 2))
    D, d = a.mean() - b.mean(), np.array([0.3, 0.1])
    assert found.classes[0, 1] == pytest.approx(0.5 * ((3 * (d[0] - D)) ** 2 + ((d[1] - D) / 3) ** 2))
    weight = np.array([[3.0], [1 / 3]])
    left = 0.0
    for own, mean in ((y[0], a), (y[1], b)):
        r = weight * (own - mean)
        left += ((r - r.mean(axis=1, keepdims=True)) ** 2).sum()
    assert found.residual[0, 1] == pytest.approx(0.5 * left / 6)
    assert found.effective_classes == pytest.approx(1.6)
    V = max(found.classes[0, 1] + found.repetition[0, 1] - found.residual[0, 1], found.classes[0, 1])
    nu = V / (found.repetition[0, 1] / found.freedom[0, 1] + found.classes[0, 1] / 0.6)
    assert judge(scores, "unseen classes").p[0] == pytest.approx(2 * stats.t.sf(D / np.sqrt(V), nu))


def test_independent_repetitions_are_welchs_test_and_pairs_the_paired_t_test():
    y = np.random.default_rng(2).random((2, 1, 6)) * np.array([1.0, 5.0])[:, None, None] / 5
    same = np.repeat(y, 4, axis=1)  # classes that agree: nothing but repetitions varies
    apart, paired = (judge(Scores(("a", "b"), same, np.ones(4), paired=kind), TARGETS[0]) for kind in (False, True))
    assert apart.p[0] == pytest.approx(stats.ttest_ind(y[0, 0], y[1, 0], equal_var=False).pvalue)
    assert paired.p[0] == pytest.approx(stats.ttest_rel(y[0, 0], y[1, 0]).pvalue)
    low, high = stats.ttest_rel(y[0, 0], y[1, 0]).confidence_interval()
    assert [paired.difference[0] - paired.half_width[0], paired.difference[0] + paired.half_width[0]] == pytest.approx(
        [low, high]
    )


@pytest.mark.parametrize("target", TARGETS)
def test_the_correction_covers_the_pairs_that_are_asked_about(target):
    scores = Scores(tuple("abcd"), np.random.default_rng(0).random((4, 30, 5)), np.ones(30))
    every, some = judge(scores, target), judge(scores, target, against="a")
    assert (len(every.p), len(some.p)) == (6, 3)
    assert some.p.tolist() == every.p[:3].tolist()
    assert some.difference.tolist() == (-every.difference[:3]).tolist()
    assert some.holm.tolist() == holm(every.p[:3]).tolist()
    t = stats.t.isf(0.025 / 3, some.freedom)
    np.testing.assert_allclose(some.half_width, t * np.sqrt(some.variance))
    two = judge(Scores(("a", "b"), scores.values[:2], scores.sizes), target, against="a")
    assert two.holm.tolist() == two.p.tolist()
    assert (two.p <= 0.05) == (np.abs(two.difference) >= two.half_width)


def test_exact_ties_are_not_significant():
    y = np.repeat(np.random.default_rng(0).random((1, 5, 3)), 2, axis=0)
    assert judge(Scores(("a", "b"), y, np.ones(5)), "these test classes").p.tolist() == [1.0]
    constant = judge(Scores(("a", "b"), np.full((2, 5, 3), 0.5), np.ones(5)), "unseen classes")
    assert constant.holm.tolist() == [1.0]
    assert constant.verdicts == ["equivalent"]


def test_holm_is_between_nothing_and_bonferroni():
    p = np.random.default_rng(0).random(30) ** 4
    assert (holm(p) >= p).all()
    assert (holm(p) <= np.minimum(30 * p, 1) + 1e-15).all()
    assert (np.diff(holm(p)[np.argsort(p)]) >= 0).all()
