"""Class-level intervals: they equal a plain bootstrap, and cover in simulation about as often as they promise."""

import math

import pytest
import torch
from scipy import stats

from similis.retrieval import intervals
from similis.retrieval.intervals import class_bootstrap, draw_classes, mean_interval, t_quantile
from similis.values import UserError


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 49, 99, 1000, 20_000])
def test_quantiles_of_t_are_those_of_scipy(freedom):
    for p in (0.005, 0.1, 0.5, 0.975, 0.9999):
        assert t_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=2e-4, abs=1e-9)


def test_the_interval_equals_that_of_plain_loops():
    chance = torch.Generator().manual_seed(3)
    labels = torch.randint(7, (60,), generator=chance) * 5
    values = torch.rand(60, generator=chance)
    values[::9] = math.nan
    found = mean_interval(values, labels, draws=50, seed=4)
    by_class = {}
    for value, label in zip(values.tolist(), labels.tolist(), strict=True):
        if not math.isnan(value):
            by_class.setdefault(label, []).append(value)
    classes = sorted(by_class)
    means = []
    for counts in draw_classes(50, len(classes), torch.Generator().manual_seed(4)).tolist():
        all_values = [
            v for number, label in enumerate(classes) for v in by_class[label] for _ in range(int(counts[number]))
        ]
        means.append(sum(all_values) / len(all_values))
    means.sort()
    sizes = [len(by_class[label]) for label in classes]
    effective = sum(sizes) ** 2 / sum(size**2 for size in sizes)
    reach = math.sqrt(effective / (effective - 1)) * stats.t.ppf(0.975, effective - 1)
    for edge, got in ((-reach, found.low), (reach, found.high)):
        place = stats.norm.cdf(edge) * 49
        below = math.floor(place)
        expected = means[below] + (place - below) * (means[min(below + 1, 49)] - means[below])
        assert got == pytest.approx(expected, rel=1e-6)
    flat = [value for label in classes for value in by_class[label]]
    assert found.value == pytest.approx(sum(flat) / len(flat))


def test_draws_come_in_tiles_of_any_size_with_the_same_answer(monkeypatch):
    heights = torch.rand(9, dtype=torch.float64)
    by_tile = []
    for cells in (9, 70, 2**20):
        monkeypatch.setattr(intervals, "CELLS", cells)
        by_tile.append(class_bootstrap(lambda times: times @ heights / times.sum(1), torch.ones(9), draws=101))
    assert all(torch.equal(torch.stack(one), torch.stack(by_tile[0])) for one in by_tile)


def test_several_statistics_share_the_draws():
    heights = torch.rand(12, dtype=torch.float64)
    both = class_bootstrap(lambda t: torch.stack([t @ heights, 2 * (t @ heights)], dim=1), torch.ones(12))
    one = class_bootstrap(lambda t: t @ heights, torch.ones(12))
    assert both.interval(0) == one.interval()
    assert torch.allclose(torch.stack(both)[:, 1], 2 * torch.stack(one)[:, 0])


def test_what_cannot_be_bootstrapped_is_refused():
    with pytest.raises(UserError, match="1 classes"):
        mean_interval(torch.rand(4), torch.zeros(4, dtype=torch.long))
    with pytest.raises(UserError, match="one value and one label"):
        mean_interval(torch.rand(4), torch.zeros(3, dtype=torch.long))


def simulate(classes, chance, gain=0.0):
    """Scores 0 and 1 of the queries of classes that differ in size and difficulty; and of a better model."""
    sizes = torch.randint(2, 60, (classes,), generator=chance)
    labels = torch.repeat_interleave(torch.arange(classes), sizes)
    ease = 0.5 + torch.randn(classes, generator=chance)
    first = (torch.rand(len(labels), generator=chance) < torch.sigmoid(ease)[labels]).double()
    other = ease + gain + 0.5 * torch.randn(classes, generator=chance)
    second = (torch.rand(len(labels), generator=chance) < torch.sigmoid(other)[labels]).double()
    return labels, first, second


def coverage(classes, trials, gain=0.0):
    """Shares of the trials in which the intervals of a mean and of a paired difference hold the truth."""
    chance = torch.Generator().manual_seed(classes)
    _, first, second = simulate(300_000, chance, gain)
    truths = float(first.mean()), float((second - first).mean())
    hits = [0, 0]
    for trial in range(trials):
        labels, first, second = simulate(classes, chance, gain)
        for number, (values, truth) in enumerate(zip((first, second - first), truths, strict=True)):
            found = mean_interval(values, labels, draws=600, seed=trial)
            hits[number] += found.low <= truth <= found.high
    return [hit / trials for hit in hits]


@pytest.mark.parametrize("classes", [10, 30])
def test_intervals_cover_what_they_promise(classes):
    for covered in coverage(classes, 300):  # 300 trials: standard error 1.3 points; photos as units cover 50 to 70 %
        assert 0.90 < covered < 0.99


@pytest.mark.slow
@pytest.mark.parametrize("classes", [10, 20, 50, 100])
def test_intervals_cover_what_they_promise_in_many_trials(classes):
    for covered in coverage(classes, 2500, gain=0.3):  # standard error 0.44 points
        assert 0.95 - 0.01 - 3 * 0.0044 < covered < 0.95 + 0.01 + 3 * 0.0044


def test_a_planted_difference_is_found_and_none_is_not():
    def found_in(gain):
        chance = torch.Generator().manual_seed(11)
        intervals = []
        for trial in range(40):
            labels, first, second = simulate(50, chance, gain)
            intervals.append(mean_interval(second - first, labels, draws=400, seed=trial))
        return sum(one.low > 0 for one in intervals), sum(one.high < 0 for one in intervals)

    better, worse = found_in(0.8)
    assert (better, worse) >= (36, 0)
    assert worse == 0
    assert sum(found_in(0.0)) <= 6  # 5 % of 40 is 2
