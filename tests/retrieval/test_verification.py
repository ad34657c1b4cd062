"""Verification against plain loops over all pairs, and intervals that cover in simulation."""

import bisect
import math
from itertools import combinations

import pytest
import torch

from benchmarks.fixed_threshold import rates_at
from similis.retrieval.intervals import draw_classes
from similis.retrieval.pair_similarities import count_upper, key_value, labelled_pairs, order_key, thresholds_and_eer
from similis.retrieval.threshold_rates import count_accepted, rates
from similis.retrieval.verification import verify
from similis.values import Embedded, Pairs, UserError


def clustered(count, classes, dim=6, spread=1.2, seed=0):
    """Vectors around class centres, with copies of one image under two labels, so that similarities tie."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=chance) * 3 + 2
    centres = torch.randn(3 * classes + 2, dim, generator=chance)
    vectors = centres[labels] + spread * torch.randn(count, dim, generator=chance)
    vectors[1], vectors[7] = vectors[0], vectors[3]
    return Embedded(vectors, labels, torch.arange(count))


def plain_pairs(embedded, groups=None, pairs=None):
    """Every pair by loops: similarity, label and label. A similarity has the last bit of the library's own product."""
    (tile,) = labelled_pairs(embedded, pairs=pairs)
    rows = list(combinations(range(len(embedded.labels)), 2))
    if pairs is not None:
        anchors, others = [*pairs.positive_anchors, *pairs.negative_anchors], [*pairs.positives, *pairs.negatives]
        rows = [(int(a), int(b)) for a, b in zip(anchors, others, strict=True)]
    vectors = embedded.vectors.double().tolist()
    found = []
    for (a, b), s in zip(rows, tile.similarity.tolist(), strict=True):
        lengths = math.hypot(*vectors[a]) * math.hypot(*vectors[b])
        assert s == pytest.approx(sum(x * y for x, y in zip(vectors[a], vectors[b], strict=True)) / lengths, abs=1e-6)
        if groups is None or groups[a] != groups[b] or groups[a] < 0:
            found.append((s, int(embedded.labels[a]), int(embedded.labels[b])))
    return found


def plain_threshold(pairs, far):
    """The lowest float32 threshold that accepts at most the share ``far`` of the impostors."""
    impostors = sorted((s for s, a, b in pairs if a != b), reverse=True)
    first_refused = impostors[math.floor(far * len(impostors) + 1e-9)]
    return math.nextafter(first_refused, math.inf), first_refused


def plain_rate(pairs, same, threshold):
    chosen = [s for s, a, b in pairs if (a == b) == same]
    return sum(s >= threshold for s in chosen) / len(chosen)


@pytest.fixture(params=["all", "groups", "listed"])
def case(request):
    embedded = clustered(70, 6)
    if request.param == "groups":
        groups = torch.arange(70) % 5 - 1
        return embedded, {"groups": groups}, plain_pairs(embedded, groups=groups.tolist())
    if request.param == "listed":
        chance = torch.Generator().manual_seed(5)
        drawn = sorted({tuple(sorted(row)) for row in torch.randint(70, (600, 2), generator=chance).tolist()})
        rows = torch.tensor([(a, b) for a, b in drawn if a < b])
        same = embedded.labels[rows[:, 0]] == embedded.labels[rows[:, 1]]
        pairs = Pairs(rows[same, 0], rows[same, 1], rows[~same, 0], rows[~same, 1])
        return embedded, {"pairs": pairs}, plain_pairs(embedded, pairs=pairs)
    return embedded, {}, plain_pairs(embedded)


def test_thresholds_rates_and_counts_equal_plain_loops(case):
    embedded, given, pairs = case
    found = verify(embedded, far=0.05, fars=(0.01, 0.2), draws=20, **given)
    assert found.genuine == sum(a == b for _, a, b in pairs)
    assert found.impostors == sum(a != b for _, a, b in pairs)
    for far in (0.01, 0.05, 0.2):
        threshold, refused = plain_threshold(pairs, far)
        got = found.threshold[far].value
        assert refused < got < refused + 1e-6
        assert found.tar[far].value == pytest.approx(plain_rate(pairs, True, threshold))
        assert plain_rate(pairs, False, got) <= far
        far_there, tar_there = rates_at(embedded, got, draws=20, **given)
        assert far_there.value == pytest.approx(plain_rate(pairs, False, got))
        assert tar_there.value == pytest.approx(plain_rate(pairs, True, got))


def test_the_equal_error_rate_is_the_best_of_all_thresholds(case):
    embedded, given, pairs = case
    found = verify(embedded, far=0.05, draws=20, **given)
    best = min(
        max(plain_rate(pairs, False, t), 1 - plain_rate(pairs, True, t)) for t in [*{s for s, _, _ in pairs}, 2.0]
    )
    assert found.eer.value == pytest.approx(best)
    t = found.eer_threshold
    assert max(plain_rate(pairs, False, t), 1 - plain_rate(pairs, True, t)) == pytest.approx(best)


def test_opis_equals_plain_loops(case):
    embedded, given, pairs = case
    found = verify(embedded, far=0.05, draws=20, **given)
    near, far = (math.sqrt(2 - 2 * (plain_threshold(pairs, rate)[0])) for rate in (0.01, 0.1))
    labels = sorted({a for _, a, b in pairs if a == b})
    total, steps = 0.0, 101
    for step in range(steps):
        threshold = 1 - (near + (far - near) * step / (steps - 1)) ** 2 / 2
        utilities = []
        for label in labels:
            genuine = [s for s, a, b in pairs if a == b == label]
            impostor = [s for s, a, b in pairs if a != b and label in (a, b)]
            sensitivity = sum(s >= threshold for s in genuine) / len(genuine)
            specificity = sum(s < threshold for s in impostor) / len(impostor)
            both = sensitivity + specificity
            utilities.append(2 * sensitivity * specificity / both if both else 0.0)
        mean = sum(utilities) / len(utilities)
        variance = sum((u - mean) ** 2 for u in utilities) / len(utilities)
        total += variance * (0.5 if step in (0, steps - 1) else 1.0) / (steps - 1)
    assert found.opis == pytest.approx(total, rel=1e-3)
    assert found.opis > 1e-4


def test_figures_of_single_classes_equal_plain_loops(case):
    embedded, given, pairs = case
    found = verify(embedded, far=0.05, draws=20, **given)
    threshold = found.threshold[0.05].value
    for number, label in enumerate(found.classes.tolist()):
        genuine = [s for s, a, b in pairs if a == b == label]
        assert float(found.class_tar[number]) == pytest.approx(sum(s >= threshold for s in genuine) / len(genuine))
        impostor = sorted(s for s, a, b in pairs if a != b and label in (a, b))
        own = float(found.class_threshold[number])  # interpolated between thresholds of the curve
        accepted = 1 - bisect.bisect_left(impostor, own) / len(impostor)
        assert abs(accepted - 0.05) < 0.03


def test_tiles_of_any_size_give_the_same_answer():
    embedded = clustered(50, 5, dim=3)
    answers = []
    for tile in (40, 333, 2**20):
        found = verify(embedded, far=0.05, draws=30, tile=tile)
        answers.append((found.threshold, found.tar, found.eer, found.opis))
    for other in answers[1:]:
        for far, interval in answers[0][0].items():
            assert other[0][far] == pytest.approx(interval, abs=1e-6)
        assert other[2] == pytest.approx(answers[0][2], abs=1e-3)


def test_a_tie_of_a_genuine_pair_with_a_refused_impostor_is_refused():
    one = torch.eye(4)
    vectors = torch.stack([one[0], one[0] + one[1], one[0] + one[1], one[2], one[3]])
    embedded = Embedded(vectors, torch.tensor([0, 0, 1, 1, 2]), torch.arange(5))  # row 0 is as near to 1 as to 2
    pairs = Pairs(*(torch.tensor(rows) for rows in ([0, 2], [1, 3], [0, 0], [2, 4])))
    found = verify(embedded, far=0.5, fars=(), draws=5, pairs=pairs)
    assert found.tar[0.5].value == 0.5  # one impostor of two may pass, and the genuine pair of equal similarity with it
    refused = thresholds_and_eer(
        labelled_pairs(embedded, pairs=pairs), count_upper(labelled_pairs(embedded, pairs=pairs)), torch.tensor([0])
    )
    assert float(refused[0][0]) > 0.7071
    assert rates_at(embedded, float(refused[0][0]), pairs=pairs, draws=5)[1].value == 0.0


def test_keys_keep_the_order_of_floats_and_neighbours_differ_by_one():
    chance = torch.Generator().manual_seed(1)
    values = torch.cat([torch.randn(500, generator=chance), torch.tensor([0.0, 1.0, -1.0, 1e-40, -1e-40])])
    values = values.unique()
    keys = order_key(values)
    assert bool((keys[1:] > keys[:-1]).all())
    assert torch.equal(key_value(keys), values)
    assert torch.equal(
        key_value(order_key(values) + 1)[values != 0], torch.nextafter(values, torch.tensor(9.0))[values != 0]
    )


def test_rates_of_drawn_classes_equal_loops_over_the_drawn_pairs():
    embedded = clustered(40, 5)
    pairs = plain_pairs(embedded)
    names = sorted(set(embedded.labels.tolist()))
    thresholds = torch.tensor([0.8, 0.4, 0.0], dtype=torch.float64)
    accepted = count_accepted(labelled_pairs(embedded, tile=100), thresholds)
    draws = draw_classes(6, 5, torch.Generator().manual_seed(2))
    far, tar = rates(draws, accepted)
    for r, counts in enumerate(draws.tolist()):
        times = dict(zip(names, counts, strict=True))
        for t, threshold in enumerate(thresholds.tolist()):
            sums = {(same, passed): 0.0 for same in (True, False) for passed in (True, False)}
            for s, a, b in pairs:
                sums[a == b, s >= threshold] += times[a] if a == b else times[a] + times[b] - 1
            assert float(tar[r, t]) == pytest.approx(sums[True, True] / (sums[True, True] + sums[True, False]))
            assert float(far[r, t]) == pytest.approx(sums[False, True] / (sums[False, True] + sums[False, False]))


def test_what_cannot_be_verified_is_refused():
    embedded = clustered(20, 3)
    with pytest.raises(UserError, match="one pair"):
        verify(embedded, far=1e-6)
    with pytest.raises(UserError, match="verification needs both"):
        verify(embedded._replace(labels=torch.zeros(20, dtype=torch.long)), far=0.1)
    other = (embedded.labels != embedded.labels[0]).nonzero()[0]
    with pytest.raises(UserError, match="contradict the labels"):
        verify(embedded, far=0.1, pairs=Pairs(torch.tensor([0]), other, torch.tensor([0]), other))
    with pytest.raises(UserError, match="one group a vector"):
        verify(embedded, far=0.1, groups=torch.zeros(3))


def world(classes, chance, dim=16, images=None):
    """Images of classes that differ in spread, drawn from one population; with as many images a class, or 4 to 19."""
    sizes = torch.randint(4, 20, (classes,), generator=chance) if images is None else torch.full((classes,), images)
    labels = torch.repeat_interleave(torch.arange(classes), sizes)
    centres = torch.randn(classes, dim, generator=chance)
    spread = 0.6 + 0.3 * torch.rand(classes, generator=chance)
    noise = torch.randn(len(labels), dim, generator=chance)
    return Embedded(centres[labels] + spread[labels, None] * noise, labels, torch.arange(len(labels)))


def population(chance, far, pairs=400_000):
    """Threshold, TAR and EER of the population, from independent pairs of images of one class and of two."""
    vectors = torch.nn.functional.normalize(world(pairs, chance, images=2).vectors, dim=1)
    genuine = (vectors[::2] * vectors[1::2]).sum(1).sort().values
    impostor = (vectors[::2] * vectors[1::2].roll(1, 0)).sum(1).sort().values
    threshold = float(impostor[round((1 - far) * pairs)])
    missed = torch.searchsorted(genuine, impostor) / pairs  # FRR at each impostor's similarity
    accepted = 1 - torch.arange(pairs) / pairs
    return threshold, float((genuine >= threshold).float().mean()), float(torch.maximum(missed, accepted).min())


def coverage(classes, trials, far=0.05):
    """How often intervals hold the truth: FAR and TAR at a threshold, TAR and threshold at a FAR, EER."""
    chance = torch.Generator().manual_seed(classes)
    threshold, tar, eer = population(chance, far)
    expected = (far, tar, tar, threshold, eer)
    hits = [0] * 5
    for trial in range(trials):
        embedded = world(classes, chance)
        found = verify(embedded, far=far, fars=(), draws=300, seed=trial)
        fixed = rates_at(embedded, threshold, draws=300, seed=trial)
        intervals = (*fixed, found.tar[far], found.threshold[far], found.eer)
        for number, (one, wanted) in enumerate(zip(intervals, expected, strict=True)):
            hits[number] += one.low <= wanted <= one.high
    return [hit / trials for hit in hits]


def test_intervals_cover_the_truth_of_other_classes():
    for covered in coverage(20, 40):  # 90 to 99 % in many trials, standard error here 5 points
        assert covered > 0.75


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("classes", [10, 30, 80])
def test_intervals_cover_the_truth_of_other_classes_in_many_trials(classes):
    for covered in coverage(classes, 400):  # standard error 1.3 points; those of the FAR are too wide, see rates
        assert covered > 0.90 - 3 * 0.013
