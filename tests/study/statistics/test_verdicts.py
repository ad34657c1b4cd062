"""Sentences: who is better, for which target, within which margin, and what would settle the rest."""

import numpy as np
import pytest

from similis.study.statistics.significance import TARGETS
from similis.study.statistics.variance_components import Scores
from similis.study.statistics.verdicts import pair_verdicts
from tests.statistics.simulated import World, tournament


def scores(gain: float, *, interaction: float = 0.0, queries: int = 59, spread: float = 0.55) -> Scores:
    chance = np.random.default_rng(4)
    world = World(losses=3, interaction_sd=interaction, queries=queries, least=spread, most=spread)
    return tournament(world, 5, chance, fixed_classes=True, gains=[0.0, gain, 0.0])


def test_a_large_difference_is_better_for_both_targets_and_the_winner_is_named_first():
    said = [v for v in pair_verdicts(scores(20.0)) if "loss1" in (v.first, v.second)]
    assert {(v.first, v.verdict) for v in said} == {("loss1", "better")}
    here, new = said[0].sentence, said[-1].sentence
    assert here.startswith("loss1 is better than loss")
    assert " on these test classes (+" in here
    assert " on unseen classes (+" in new
    assert "margin" not in here
    assert all(v.low > 0 and v.required == "" for v in said)


def test_against_a_baseline_the_contestant_is_named_first():
    said = pair_verdicts(scores(20.0), against="loss1")
    assert {(v.first, v.second, v.verdict) for v in said} == {("loss0", "loss1", "worse"), ("loss2", "loss1", "worse")}
    assert len(said) == 2 * len(TARGETS)
    assert said[0].sentence.startswith("loss0 is worse than loss1 on these test classes (-")


def test_better_here_need_not_be_better_on_new_classes():
    """Three points with a strong interaction: significant on these test classes, not on unseen ones."""
    said = pair_verdicts(scores(4.0, interaction=16.0))
    by_target = {(v.target, v.verdict) for v in said if v.first == "loss1"}
    assert ("these test classes", "better") in by_target
    assert ("unseen classes", "better") not in by_target
    sentence = next(v.sentence for v in said if v.first == "loss1" and v.verdict == "undecided")
    assert " on unseen classes is undecided (+" in sentence
    assert "The smallest detectable difference is " in sentence
    assert "more repetitions alone would not settle it; about" in sentence
    assert sentence.endswith("with 80 % power.")


def test_equal_losses_are_equivalent():
    same = np.repeat(np.random.default_rng(0).random((1, 10, 3)), 2, axis=0)
    same[:, :, :] = same.mean(axis=2, keepdims=True)
    for verdict in pair_verdicts(Scores(("a", "b"), same, np.ones(10))):
        assert verdict.verdict == "equivalent"
        assert verdict.sentence == (
            f"a and b are equivalent on {verdict.target}: the difference is within ±1.00 points (+0.00 points, "
            "p < 0.001 of two one-sided tests)."
        )


@pytest.mark.parametrize(("margin", "verdict"), [(1.0, "undecided"), (5.0, "equivalent")])
def test_the_margin_decides_what_is_equivalent(margin, verdict):
    said = pair_verdicts(scores(0.0), margin=margin)
    assert {v.verdict for v in said} == {verdict}


def test_a_small_significant_difference_is_said_to_be_within_the_margin():
    said = pair_verdicts(scores(3.0, queries=2000, spread=0.05), against="loss0", margin=6.0)
    here = next(v for v in said if v.first == "loss1")
    assert here.verdict == "better"
    assert here.sentence.endswith(" The difference is within the margin of ±6.00 points.")
