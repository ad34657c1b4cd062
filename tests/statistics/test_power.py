"""The named sample gives the promised power, and every sentence about it is true and readable."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from similis.study.statistics.power import MOST_REPETITIONS, planned_repetitions, required_sample
from similis.study.statistics.significance import TARGETS, judge
from similis.study.statistics.variance_components import Scores, variance_components
from tests.statistics.simulated import VARIANCES, WORLD, tournament

HERE, BEYOND = TARGETS


def pilot(world, repetitions=5, seed=2):
    return variance_components(tournament(world, repetitions, np.random.default_rng(seed), fixed_classes=False))


def shown(world, repetitions, target, points, margin, number=400):
    """Shares of simulated experiments in which the last two losses differ significantly, or are equivalent."""
    chance = np.random.default_rng(7)
    gains = np.where(np.arange(world.losses) == world.losses - 1, points, 0.0)
    verdicts = []
    for _ in range(number):
        scores = tournament(world, repetitions, chance, fixed_classes=target == HERE, gains=gains)
        judgement = judge(scores, target, margin=margin)
        verdicts.append((judgement.p[-1] * len(judgement.p) <= 0.05, judgement.equivalence[-1] <= 0.05))
    return np.mean(verdicts, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("losses", [10, 2])
@pytest.mark.parametrize("points", [2.0, 3.0, 5.0])
@pytest.mark.parametrize("name", ["equal", "one x10"])
def test_the_named_number_of_repetitions_is_the_first_with_the_promised_power(name, points, losses):
    """At 80 % within five points (400 experiments, pilots of 40 repetitions); one repetition less is not enough."""
    world = replace(VARIANCES[name], losses=losses)
    if losses == 2:
        world = replace(world, first=2.0 if name == "one x10" else 1.0)
    found = [pilot(world, 40, seed) for seed in range(30)]  # their median is within half a repetition of the true one
    last = losses - 1
    wanted = [required_sample(each, last - 1, last, HERE, difference=points / 100) for each in found]
    named = int(np.median([each.repetitions for each in wanted]))
    assert shown(world, named, HERE, points, 1.0)[0] >= 0.75, named
    assert named == 3 or shown(world, named - 1, HERE, points, 1.0)[0] <= 0.85, named


@pytest.mark.slow
def test_the_named_number_of_classes_gives_the_promised_power():
    world = replace(WORLD, losses=2)
    samples = [required_sample(pilot(world, 40, seed), 0, 1, BEYOND, difference=0.015) for seed in range(10)]
    assert all(sample.classes is not None for sample in samples)
    classes = int(np.median([sample.classes for sample in samples]))
    repetitions = int(np.median([sample.repetitions for sample in samples]))
    got = shown(replace(world, classes=classes), repetitions, BEYOND, 1.5, 1.0)[0]
    assert got == pytest.approx(0.8, abs=0.07), (classes, repetitions)


@pytest.mark.slow
def test_the_named_number_of_repetitions_shows_equivalence():
    world = replace(WORLD, losses=2)
    samples = [required_sample(pilot(world, 40, seed), 0, 1, HERE, difference=0.0, margin=2.0) for seed in range(10)]
    assert {sample.outcome for sample in samples} == {"equivalent"}
    named = int(np.median([sample.repetitions for sample in samples]))
    assert shown(world, named, HERE, 0.0, 2.0)[1] == pytest.approx(0.8, abs=0.07), named


def test_less_needs_more():
    found = pilot(WORLD)
    here = [required_sample(found, 3, 6, HERE, difference=points / 100, margin=0.1) for points in (1, 2, 4)]
    assert here[0].repetitions > 2.5 * here[1].repetitions > 4 * here[2].repetitions
    assert all(sample.classes is None for sample in here)
    beyond = required_sample(found, 3, 6, BEYOND, difference=0.02)
    assert beyond.classes > 200
    assert f"about {beyond.classes:,} test classes" in beyond.describe(5)
    assert required_sample(found, 3, 6, BEYOND, difference=0.2).classes is None


def test_a_difference_inside_the_margin_is_settled_by_equivalence():
    sample = required_sample(pilot(WORLD), 3, 6, HERE, difference=0.0001)
    assert sample.outcome == "equivalent"
    assert sample.describe(5) == (
        f"{sample.repetitions} repetitions would show that the difference is within ±1.00 points with 80 % power"
    )


@pytest.mark.parametrize(
    ("target", "difference", "losses", "spread"),
    list(product(TARGETS, [0.0, 1e-6, 0.0099, 0.01, 0.0101, 0.3, 1.0], [2, 9], [0.0, 0.55, 30.0])),
)
def test_no_sentence_is_nonsense(target, difference, losses, spread):
    """No sample below what is at hand is asked for, none above what is searched, none that needs nothing more."""
    world = replace(WORLD, losses=losses, least=spread or 1.0, most=spread or 1.0)
    found = pilot(world)
    if spread == 0.0:
        found = variance_components(Scores(("a",) * losses, np.full((losses, 20, 5), 0.5), np.ones(20)))
    sample = required_sample(found, 0, 1, target, difference=difference)
    text = sample.describe(found.repetitions)
    assert "None" not in text
    assert "nan" not in text
    assert target == BEYOND or sample.classes is None
    if sample.repetitions is None:
        assert text == f"not even {MOST_REPETITIONS:,} repetitions would settle it"
        return
    assert 3 <= sample.repetitions <= MOST_REPETITIONS
    assert sample.classes is None or sample.classes > found.class_number
    assert ("of this size would" in text) == (sample.classes is None and sample.repetitions <= found.repetitions)


def test_the_number_named_before_a_tournament_is_the_one_named_after_it():
    losses = WORLD.losses
    found = [pilot(WORLD, 40, seed) for seed in range(6)]
    deviation = 100 * np.sqrt(np.median([each.own[-1] for each in found]))
    after = [required_sample(each, losses - 2, losses - 1, HERE, difference=0.02).repetitions for each in found]
    before = planned_repetitions(2.0, deviation, pairs=losses * (losses - 1) // 2)
    assert before == pytest.approx(np.median(after), rel=0.2)


def test_more_repetitions_are_planned_for_less_and_for_more_pairs():
    needed = [planned_repetitions(points, 1.0, pairs=45) for points in (5, 2, 1)]
    assert needed == sorted(needed)
    assert needed[0] < needed[2]
    assert planned_repetitions(2.0, 1.0, pairs=9) < needed[1]
    assert planned_repetitions(0.1, 50.0, pairs=45) is None
