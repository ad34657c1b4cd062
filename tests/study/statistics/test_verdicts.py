"""Sentences: who is better, for which target, and what would detect a difference."""

import numpy as np

from similis.study.statistics.variance_components import Scores
from similis.study.statistics.verdicts import pair_verdicts
from tests.statistics.simulated import World, tournament


def scores(gain: float, *, interaction: float = 0.0) -> Scores:
    chance = np.random.default_rng(4)
    world = World(losses=3, interaction_sd=interaction)
    return tournament(world, 5, chance, fixed_classes=True, gains=[0.0, gain, 0.0])


def test_a_large_difference_is_better_for_both_targets_and_the_winner_is_named_first():
    said = [v for v in pair_verdicts(scores(20.0)) if "loss1" in (v.first, v.second)]
    assert {(v.first, v.verdict) for v in said} == {("loss1", "better")}
    here, new = said[0].sentence, said[-1].sentence
    assert here.startswith("loss1 is better than loss")
    assert " on these test classes (+" in here
    assert " on unseen classes (+" in new
    assert all(v.low > 0 and v.improvement == 1.0 for v in said)


def test_better_here_need_not_be_better_on_new_classes():
    """Three points with a strong interaction: significant on these test classes, not on unseen ones."""
    said = pair_verdicts(scores(3.0, interaction=12.0))
    by_target = {(v.target, v.verdict) for v in said if v.first == "loss1"}
    assert ("these test classes", "better") in by_target
    assert ("unseen classes", "better") not in by_target
    sentence = next(v.sentence for v in said if v.first == "loss1" and v.target == "unseen classes")
    assert "no significant difference on unseen classes" in sentence
    assert "The smallest detectable difference is " in sentence
    assert "no number of repetitions would detect the observed one, about" in sentence


def test_equal_losses_do_not_differ_significantly():
    same = np.repeat(np.random.default_rng(0).random((1, 10, 3)), 2, axis=0)
    for verdict in pair_verdicts(Scores(("a", "b"), same, np.ones(10))):
        assert verdict.verdict == "no significant difference"
        assert verdict.sentence.endswith("the observed one is zero.")
