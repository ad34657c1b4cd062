"""Maps between spaces recover what links them, and estimates from samples hold what all items say."""

import pytest
import torch

from similis.retrieval.spaces.estimate import advise, around, compare_rates, estimate, measure, search_old
from similis.retrieval.spaces.space_map import KINDS, choose_kind, fit_map
from similis.sphere import unit
from similis.values import UserError


def draw(items, classes, dim, seed, noise=1.0):
    chance = torch.Generator().manual_seed(seed)
    labels = torch.arange(items) % classes
    return torch.randn(classes, dim, generator=chance)[labels] + noise * torch.randn(
        items, dim, generator=chance
    ), labels


@pytest.mark.parametrize("kind", KINDS)
def test_a_map_finds_the_turn_between_two_spaces(kind):
    x, _ = draw(400, 20, 12, seed=0)
    x = unit(x)
    turn = torch.linalg.qr(torch.randn(12, 12, generator=torch.Generator().manual_seed(1)))[0]
    found = fit_map(kind, x[:200], (x @ turn)[:200])(x[200:])
    cosine = (found * (x @ turn)[200:]).sum(1).mean()
    least = {"ridge 1": 0.95, "low-rank 0.25": 0.3, "low-rank 0.5": 0.6}
    assert cosine > least.get(kind, 0.995)
    assert found.shape == (200, 12)


@pytest.mark.parametrize(("dim", "other"), [(12, 7), (7, 12)])
def test_spaces_of_other_sizes(dim, other):
    x, _ = draw(300, 20, dim, seed=0)
    y = unit(x) @ torch.randn(dim, other, generator=torch.Generator().manual_seed(2))
    for kind in KINDS:
        assert fit_map(kind, unit(x), unit(y))(unit(x)).shape == (300, other)


def test_ridge_is_the_penalised_least_squares():
    x, _ = draw(50, 5, 4, seed=3)
    y = torch.randn(50, 3, generator=torch.Generator().manual_seed(4))
    found = fit_map("ridge 0.1", x, y)
    a, b = (x - x.mean(0)).double(), (y - y.mean(0)).double()
    penalty = 0.1 * (a.T @ a).diagonal().mean()
    stacked = torch.cat([a, penalty.sqrt() * torch.eye(4, dtype=torch.float64)])
    wanted = torch.linalg.lstsq(stacked, torch.cat([b, torch.zeros(4, 3, dtype=torch.float64)])).solution
    assert torch.allclose(found.weight.double(), wanted, atol=1e-5)


def test_the_kind_is_the_best_on_held_out_classes():
    x, labels = draw(60, 10, 32, seed=5)
    y = unit(unit(x) @ torch.randn(32, 32, generator=torch.Generator().manual_seed(6)))
    held = labels % 5 == 0
    cosines = {kind: float((fit_map(kind, x[~held], y[~held])(x[held]) * y[held]).sum(1).mean()) for kind in KINDS}
    assert choose_kind(x, y, labels) == max(cosines, key=cosines.get)
    assert len({f"{value:.4f}" for value in cosines.values()}) == len(KINDS)
    assert choose_kind(x, y, torch.full((60,), -1)) in KINDS


def test_queries_do_not_find_themselves():
    x, labels = draw(100, 10, 8, seed=7)
    asked = torch.arange(0, 100, 3)
    scores = search_old(unit(x), labels, asked, unit(x)[asked])
    for found, whole in zip(scores, measure(unit(x), labels), strict=True):
        assert torch.allclose(found, whole[asked])


def spaces(items=1500, classes=60, seed=0, better=0.8):
    """Old vectors, and new ones of the same items with less noise."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (items,), generator=chance)
    means, noise = torch.randn(classes, 16, generator=chance), torch.randn(items, 16, generator=chance)
    other = torch.randn(items, 16, generator=chance)
    turn = torch.linalg.qr(torch.randn(16, 16, generator=chance))[0]
    return (
        unit(means[labels] + 1.1 * noise),
        unit((means[labels] + better * 1.1 * (0.6 * noise + 0.8 * other)) @ turn),
        labels,
    )


def test_intervals_of_predictions_hold_the_truth():
    inside = {"new": 0, "mapped": 0}
    for seed in range(20):
        old, new, labels = spaces(seed=seed)
        sample = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[:600].sort().values
        found = estimate(old, labels, sample, new[sample], 0.5, seed=seed)
        truth = float(measure(new, labels)[0].nanmean())
        inside["new"] += found.new.recall.low <= truth <= found.new.recall.high
        rest = torch.ones(len(labels), dtype=torch.bool)
        rest[sample] = False
        asked = rest.nonzero().flatten()
        vectors = fit_map(found.kind, new[sample], old[sample])(new[asked])
        through, own = float(search_old(old, labels, asked, vectors)[0].mean()), found.mapped[-1].recall
        inside["mapped"] += own.low <= through <= own.high
        assert found.old.recall.value == pytest.approx(float(measure(old, labels)[0].nanmean()))
    assert min(inside.values()) >= 17, inside


def test_the_whole_collection_as_its_sample_has_no_error():
    old, new, labels = spaces(400)
    found = estimate(old, labels, torch.arange(400), new, 0.5)
    truth = [float(each.nanmean()) for each in measure(new, labels)]
    for row, value in zip((found.new.recall, found.new.map_r), truth, strict=True):
        assert row.low == pytest.approx(row.high)
        assert row.value == pytest.approx(value, abs=1e-6)


def test_a_threshold_keeps_the_rate_of_false_accepts():
    old, new, labels = spaces(300)
    found = compare_rates(old, new, labels, 0.4)
    different = labels[:, None] != labels
    assert found.before == pytest.approx(float(((old @ old.T) >= 0.4)[different].double().mean()))
    assert found.after == pytest.approx(float(((new @ new.T) >= 0.4)[different].double().mean()))
    kept = float(((new @ new.T) >= found.keeps)[different].double().mean())
    assert kept == pytest.approx(found.before, abs=2e-4)


def test_the_sentence_follows_the_numbers():
    old, new, labels = spaces(800, better=0.5)
    sample = torch.arange(0, 800, 2)
    found = estimate(old, labels, sample, new[sample], 0.5)
    assert advise(found).startswith(("Switch now", "Embed first"))
    far = found._replace(mapped=[found.mapped[-1]._replace(recall=around(0.0, 0.0))])
    assert advise(far).startswith("Embed first")
    assert advise(found._replace(gain=around(-0.1, 0.01))).startswith("Stay: the new model is worse")
    assert advise(found._replace(gain=around(0.01, 0.05))).startswith("Stay: the new model shows no significant gain")
    assert advise(found._replace(gain=around(0.005, 0.001))).startswith("Stay: the new model gains only R@1 +0.5")


def test_a_sample_that_is_too_small_is_refused():
    old, new, labels = spaces(100)
    with pytest.raises(UserError, match="give 50 or more"):
        estimate(old, labels, torch.arange(20), new[:20], 0.5)
