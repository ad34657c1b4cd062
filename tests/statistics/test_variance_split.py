"""The split of the variance against components that are known."""

import numpy as np
import pytest

from similis.study.statistics.variance_split import pool_splits, variance_split
from similis.values import UserError

TUNING, SEED, CLASS, RUN_CLASS = 2.0, 1.0, 12.0, 4.0  # points
K, SIZES = 50, np.ones(50)


def drawn(chance, m=1, R=8, n=3, tuning=TUNING, classes=CLASS):
    """Scores (m, K, R, n): class, tuning, seed, and noise of a run and class that averages out over classes."""
    points = (
        60
        + classes * chance.standard_normal((m, K, 1, 1))
        + tuning * chance.standard_normal((m, 1, R, 1))
        + SEED * chance.standard_normal((m, 1, R, n))
        + RUN_CLASS * chance.standard_normal((m, K, R, n))
    )
    return points / 100


def true(tuning=TUNING):
    seed = np.hypot(SEED, RUN_CLASS / np.sqrt(K))
    return {"tuning": tuning, "seed": seed, "run": np.hypot(tuning, seed), "classes": CLASS / np.sqrt(K)}


def names(m):
    return [f"loss{c}" for c in range(m)]


def test_many_contestants_find_the_known_components():
    splits = variance_split(names(400), drawn(np.random.default_rng(0), 400), SIZES)
    for part, value in true().items():
        squares = [getattr(split, part).value ** 2 for split in splits]
        assert np.mean(squares) == pytest.approx(value**2, rel=0.12), part
    pooled = pool_splits(splits)
    assert pooled == {part: pytest.approx(value, rel=0.1) for part, value in true().items()}


@pytest.mark.parametrize("tuning", [0.0, 0.5, 2.0])
def test_intervals_hold_the_known_components(tuning):
    splits = variance_split(names(400), drawn(np.random.default_rng(1), 400, tuning=tuning), SIZES)
    for part, value in true(tuning).items():
        found = [getattr(split, part) for split in splits]
        covered = np.mean([each.low <= value <= each.high for each in found])
        assert 0.92 <= covered <= (1.0 if part == "tuning" else 0.985), part
        assert all(each.low <= each.value <= each.high for each in found)


def test_noise_of_runs_is_not_counted_as_classes():
    """Without a class effect the estimate is as often below zero as above."""
    splits = variance_split(names(300), drawn(np.random.default_rng(6), 300, classes=0.0), SIZES)
    assert 0.35 <= np.mean([split.classes.value == 0 for split in splits]) <= 0.65


def test_one_unstable_contestant_does_not_move_the_median():
    values = drawn(np.random.default_rng(2), 9)
    wild = values.copy()
    wild[0] += 0.3 * np.random.default_rng(3).standard_normal((1, 8, 3))
    before, after = (pool_splits(variance_split(names(9), each, SIZES)) for each in (values, wild))
    assert after["seed"] == pytest.approx(before["seed"], rel=0.2)
    assert variance_split(names(9), wild, SIZES)[0].seed.value > 20


def test_one_run_in_each_repetition_cannot_be_split():
    split = variance_split(["a"], drawn(np.random.default_rng(4), n=1), SIZES)[0]
    assert split.tuning is None
    assert split.seed is None
    assert split.run.low < true()["run"] < split.run.high
    assert pool_splits([split])["tuning"] is None


def test_a_deviation_is_written_with_its_interval():
    seed = variance_split(["a"], drawn(np.random.default_rng(5)), SIZES)[0].seed
    assert str(seed) == f"{seed.value:.2f} points ({seed.low:.2f} to {seed.high:.2f})"


def test_constant_scores_have_no_variance():
    split = variance_split(["a"], np.full((1, 4, 3, 2), 0.5), np.ones(4))[0]
    assert {split.run.value, split.tuning.value, split.seed.value, split.classes.value} == {0.0}


@pytest.mark.parametrize("shape", [(1, 4, 3), (1, 4, 1, 2), (1, 1, 3, 2)])
def test_too_little_is_refused(shape):
    with pytest.raises(UserError, match="wanted is"):
        variance_split(["a"], np.zeros(shape), np.ones(shape[1]))
