"""The judgement proved by simulation: false alarms, power, and the promise of the power function."""

import numpy as np
import pytest

from similis.study.statistics.power import required_sample
from similis.study.statistics.significance import TARGETS, holm, judge
from similis.study.statistics.variance_components import Scores, variance_components
from similis.values import UserError
from tests.statistics.rates import false_alarms, power, recommended
from tests.statistics.simulated import World, tournament
from tests.statistics.tempting import nemenyi_repetitions, pooled_t, repetition_bootstrap, welch


@pytest.mark.parametrize("target", TARGETS)
def test_false_alarms_quick(target):
    """200 tournaments: a true 2 % stays below 7 % with certainty for practice; a true 15 % does not."""
    assert false_alarms(recommended(target), World(), 5, 200, target=target) <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize("repetitions", [2, 3, 5, 10])
@pytest.mark.parametrize("target", TARGETS)
def test_false_alarms_over_2000_null_tournaments(target, repetitions):
    assert false_alarms(recommended(target), World(), repetitions, 2000, target=target) <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("repetitions", [2, 3, 5])
@pytest.mark.parametrize("target", TARGETS)
def test_false_alarms_with_two_unstable_losses(target, repetitions):
    assert false_alarms(recommended(target), World(unstable=2), repetitions, 2000, target=target) <= 0.07


@pytest.mark.parametrize(("repetitions", "least"), [(5, 0.35), (10, 0.85)])
def test_power_for_two_points_on_these_classes(repetitions, least):
    assert power(recommended("these test classes"), World(), repetitions, 60, target="these test classes") >= least


@pytest.mark.slow
@pytest.mark.parametrize("points", [1.5, 2.0, 3.0])
def test_the_named_number_of_repetitions_gives_the_promised_power(points):
    """Repetitions named by a large pilot, then simulated: 80 % within five points."""
    chance = np.random.default_rng(3)
    pilot = [variance_components(tournament(World(), 20, chance, fixed_classes=True)) for _ in range(10)]
    named = int(
        np.median([required_sample(found, 0, 11, points / 100, "these test classes").repetitions for found in pilot])
    )
    got = power(recommended("these test classes"), World(), named, 400, target="these test classes", points=points)
    assert got == pytest.approx(0.8, abs=0.05), named


def test_repetitions_and_classes_wanted():
    chance = np.random.default_rng(2)
    found = variance_components(tournament(World(), 5, chance, fixed_classes=False))
    here = required_sample(found, 0, 6, 0.02, "these test classes")
    assert 5 <= here.repetitions <= 12
    assert required_sample(found, 0, 6, 0.01, "these test classes").repetitions > 3 * here.repetitions
    beyond = required_sample(found, 0, 6, 0.02, "unseen classes")
    assert beyond.repetitions is None
    assert 150 < beyond.classes < 500
    assert f"about {beyond.classes} classes would" in beyond.describe(5)
    between = float(found.classes[0, 6] - found.residual[0, 6]) * 1e4  # in points: K * 4.43 * V_g for two points
    assert beyond.classes == pytest.approx(100 * 4.43 * between, rel=0.01)
    assert required_sample(found, 0, 6, 0.2, "unseen classes").repetitions is not None


def test_no_number_of_classes_is_asked_for_where_the_classes_are_fixed():
    found = variance_components(tournament(World(), 5, np.random.default_rng(2), fixed_classes=False))
    tiny = required_sample(found, 0, 6, 1e-5, "these test classes")
    assert tiny.classes is None
    assert tiny.describe(5) == "not even 1,000 repetitions would detect the observed one"


def test_tempting_procedures_fail():
    """A percentile bootstrap over five repetitions raises a false alarm in half of all tournaments."""
    assert false_alarms(repetition_bootstrap, World(), 5, 100, target="these test classes") > 0.3
    assert false_alarms(welch, World(), 5, 150, target="unseen classes") > 0.25
    assert false_alarms(pooled_t, World(unstable=2), 5, 200, target="these test classes") > 0.07


def test_nemenyi_over_two_repetitions_can_never_reject():
    assert power(nemenyi_repetitions, World(), 2, 20, target="these test classes", points=20.0) == 0


def test_a_pair_by_hand():
    """Two losses, two classes of unequal size, two repetitions, in plain arithmetic."""
    y = np.array([[[0.4, 0.6], [0.8, 0.8]], [[0.2, 0.2], [0.5, 0.9]]])
    found = variance_components(Scores(("a", "b"), y, np.array([30.0, 10.0])))
    a, b = np.array([0.5, 0.65]), np.array([0.275, 0.375])  # .75 * class 0 + .25 * class 1
    assert found.difference[0, 1] == pytest.approx(a.mean() - b.mean())
    S = np.array([a.var(ddof=1), b.var(ddof=1)])
    assert found.repetition[0, 1] == pytest.approx(np.maximum(S, S.mean()).sum() / 2)
    D, d = a.mean() - b.mean(), np.array([0.3, 0.1])
    assert found.classes[0, 1] == pytest.approx(0.5 * ((3 * (d[0] - D)) ** 2 + ((d[1] - D) / 3) ** 2))
    ra = np.array([[3 * (0.4 - a[0]), 3 * (0.6 - a[1])], [(0.8 - a[0]) / 3, (0.8 - a[1]) / 3]])
    rb = np.array([[3 * (0.2 - b[0]), 3 * (0.2 - b[1])], [(0.5 - b[0]) / 3, (0.9 - b[1]) / 3]])
    left = sum(((r - r.mean(axis=1, keepdims=True)) ** 2).sum() for r in (ra, rb))
    assert found.residual[0, 1] == pytest.approx(0.5 * left / 2)
    assert found.effective_classes == pytest.approx(1.6)


def test_one_repetition_is_refused():
    with pytest.raises(UserError, match="1 repetitions given"):
        judge(Scores(("a", "b"), np.zeros((2, 5, 1)), np.ones(5)), "unseen classes")


def test_exact_ties_are_not_significant():
    y = np.repeat(np.random.default_rng(0).random((1, 5, 3)), 2, axis=0)
    assert judge(Scores(("a", "b"), y, np.ones(5)), "these test classes").p.tolist() == [1.0]
    assert judge(Scores(("a", "b"), np.full((2, 5, 3), 0.5), np.ones(5)), "unseen classes").holm.tolist() == [1.0]


def test_holm_is_between_nothing_and_bonferroni():
    p = np.random.default_rng(0).random(30) ** 4
    assert (holm(p) >= p).all()
    assert (holm(p) <= np.minimum(30 * p, 1) + 1e-15).all()
    assert (np.diff(holm(p)[np.argsort(p)]) >= 0).all()
