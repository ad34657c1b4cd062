"""Looking several times: boundaries against the literature and by simulation, error over all looks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from similis.study.statistics.looks import LOOKS, look_verdicts, nominal_levels
from similis.study.statistics.significance import TARGETS
from tests.statistics.looking import share_of_verdicts
from tests.statistics.simulated import VARIANCES, WORLD, tournament

HERE, BEYOND = TARGETS


def test_five_equal_looks_have_the_published_bounds():
    """Lan and DeMets' O'Brien-Fleming bounds, as printed by ldbounds and in Proschan, Lan and Wittes, 2006."""
    bounds = stats.norm.isf(np.array(nominal_levels((1, 2, 3, 4, 5), most=5)) / 2)
    np.testing.assert_allclose(bounds, [4.8769, 3.3569, 2.6803, 2.2898, 2.0310], atol=2e-4)


@pytest.mark.parametrize("looks", [LOOKS, (3, 4, 6, 11), (3, 5, 6), (15,)])
@pytest.mark.parametrize("last", [False, True])
def test_normal_walks_leave_the_bounds_as_often_as_is_spent(looks, last):
    """400,000 random walks: cumulative crossings are the spending function, a standard error of 0.0003."""
    shares = np.array(looks) / 15
    shares[-1] = 1.0 if last else shares[-1]
    levels = nominal_levels(looks, last=last)
    steps = np.sqrt(np.diff(shares, prepend=0.0))
    walks = np.cumsum(np.random.default_rng(0).standard_normal((400_000, len(looks))) * steps, axis=1) / np.sqrt(shares)
    crossed = np.maximum.accumulate(2 * stats.norm.sf(np.abs(walks)) <= levels, axis=1).mean(axis=0)
    np.testing.assert_allclose(crossed, 4 * stats.norm.sf(stats.norm.isf(0.0125) / np.sqrt(shares)), atol=0.0015)


def test_a_single_look_at_all_repetitions_spends_everything():
    assert nominal_levels((15,)) == pytest.approx((0.05,))
    assert nominal_levels((5,), most=5) == pytest.approx((0.05,))


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("target", TARGETS)
def test_false_verdicts_over_five_looks_quick(target, name):
    assert share_of_verdicts(VARIANCES[name], LOOKS, 150, target=target, words=("better", "worse")) <= 0.11


@pytest.mark.slow
@pytest.mark.parametrize("looks", [LOOKS, (3, 5, 6)])
@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("target", TARGETS)
def test_false_verdicts_over_2000_comparisons(target, name, looks):
    """All looks as planned, and a budget that ends at the sixth repetition and spends the rest there."""
    words, last = ("better", "worse"), looks != LOOKS
    assert share_of_verdicts(VARIANCES[name], looks, 2000, target=target, words=words, last=last) <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_false_equivalence_over_2000_comparisons(target):
    """A true difference of exactly the margin."""
    world = replace(WORLD, interaction_sd=1.0, least=0.5, most=0.5, queries=500)
    options = {"target": target, "words": ("equivalent",), "gain": 2.0, "margin": 2.0}
    assert 0.01 <= share_of_verdicts(world, LOOKS, 2000, **options, ignore=("better", "worse")) <= 0.06


def test_a_large_difference_ends_early_and_an_undecided_look_says_what_follows():
    world, chance = replace(WORLD, losses=2, interaction_sd=0.0), np.random.default_rng(0)
    scores = tournament(world, 5, chance, fixed_classes=True, gains=[-30.0, 0.0])
    assert [v.verdict for v in look_verdicts(scores, (3, 5))] == ["worse", "worse"]
    scores = tournament(world, 3, chance, fixed_classes=True, gains=[5.0, 0.0])
    here = look_verdicts(scores, (3,))[0]
    assert here.verdict == "undecided"
    assert " at a level of 1.1e-06 for this interim analysis)" in here.sentence
    assert here.sentence.endswith("; interim analyses up to 15 repetitions are expected to settle it.")


def test_a_small_margin_is_not_settled_by_fifteen_repetitions():
    scores = tournament(replace(WORLD, losses=2), 5, np.random.default_rng(1), fixed_classes=True)
    beyond = look_verdicts(scores, (3, 5), margin=0.1)[1]
    assert beyond.verdict == "undecided"
    assert "looks up to" not in beyond.required
