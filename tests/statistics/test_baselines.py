"""Contestants that are not above a baseline, planted on both sides of it."""

from dataclasses import replace

import numpy as np
import pytest

from similis.study.statistics.baselines import below_baseline
from similis.study.statistics.variance_components import Scores
from tests.statistics.simulated import VARIANCES, WORLD, tournament

WITH_FLOOR = WORLD


def planted(gains, seed=0, repetitions=5, world=WITH_FLOOR):
    """Scores of all losses but the last, and the last as an untrained network (K, R)."""
    chance = np.random.default_rng(seed)
    whole = tournament(world, repetitions, chance, fixed_classes=True, gains=gains)
    return Scores(whole.names[:-1], whole.values[:-1], whole.sizes), whole.values[-1]


def test_those_at_or_below_the_floor_are_listed_and_no_others():
    gains = np.full(10, 20.0)
    gains[[1, 4]] = 0.0, -5.0
    gains[-1] = 0.0
    scores, floor = planted(gains)
    found = below_baseline(scores, floor)
    assert [each.name for each in found] == ["loss1", "loss4"]
    assert found[1].low < -2
    assert below_baseline(scores, floor.mean(axis=1))[-1].name == "loss4"
    assert below_baseline(scores, np.zeros(100)) == ()
    assert len(below_baseline(scores, np.ones(100))) == 9


def test_an_unstable_contestant_needs_a_larger_distance_and_disturbs_no_other():
    gains = np.full(10, 6.0)
    gains[-1] = 0.0
    scores, floor = planted(gains, seed=3, world=replace(WITH_FLOOR, first=10.0))
    assert [each.name for each in below_baseline(scores, floor)] == ["loss0"]


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("name", VARIANCES)
def test_an_untrained_network_passes_one_time_in_twenty(name, fixed):
    """Fixed: a floor without chance, the true recall of every class, which all losses share."""
    world = replace(VARIANCES[name], interaction_sd=0.0, class_sd=0.0)
    passed = []
    for seed in range(150):
        scores, floor = planted(0.0, seed, 3, world)
        listed = {each.name for each in below_baseline(scores, np.full(100, 0.6) if fixed else floor)}
        passed.append([name not in listed for name in scores.names])
    assert 0.005 <= np.mean(passed) <= 0.06
    assert np.mean(passed, axis=0).max() <= 0.12  # the unstable one, 150 trials
