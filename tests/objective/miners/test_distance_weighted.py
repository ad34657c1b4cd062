"""Distance weighting: closed weights, chances of the definition, what is drawn, large dimensions."""

import math

import pytest
import torch

from similis.objective.miners.distance_weighted import distance_weighted, log_weight, probabilities
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, A, B
from tests.objective.miners.plain_sets import chi_square, columns, random_seen, seen, triplet_list


def test_closed_weights():
    d = torch.tensor([0.5, 1.0, 1.2, math.sqrt(2)], dtype=torch.float64)
    expected = [369.93011572, 73.21508744, 20.59607365, -0.34657359]
    assert log_weight(d, 512).tolist() == pytest.approx(expected, abs=1e-6)


def oracle(s, negative, dim):
    """Chances from the definition; exact enough for small dimensions without logarithms."""
    rows = []
    for i in range(len(s)):
        weights = [0.0] * s.shape[1]
        d = {k: math.sqrt(max(0.0, 2 - 2 * float(s[i, k]))) for k in columns(negative, i)}
        near = [k for k in d if d[k] < 1.4]
        for k in near or d:
            x = max(d[k], 0.5)
            weights[k] = 1 / (x ** (dim - 2) * (1 - x * x / 4) ** ((dim - 3) / 2)) if near else 1.0
        rows.append([w / max(sum(weights), 1e-300) for w in weights])
    return rows


@pytest.mark.parametrize("dim", [2, 3, 8, 32])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chances_are_those_of_the_definition(seed, dim):
    s, _, negative = random_seen(seed)
    got, want = probabilities(s, negative, dim).tolist(), oracle(s, negative, dim)
    assert [p for row in got for p in row] == pytest.approx([p for row in want for p in row], abs=1e-12)


def test_negatives_that_are_all_far_are_drawn_alike():
    s, _, negative = seen(A, A_LABELS)  # all negatives of anchor 0 are 1.4 or farther
    assert probabilities(s, negative, 128)[0].tolist() == pytest.approx([0, 0, 0.25, 0.25, 0.25, 0.25])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [512, 1024])
def test_a_near_pair_elsewhere_does_not_flatten_a_row(dim, dtype):
    """Row 0 has a negative at 0.4; with one maximum for all rows the weights of row 1 would all be 0."""
    d = torch.tensor([[0.4, 1.0, 1.3], [1.30, 1.31, 1.39]], dtype=torch.float64)
    got = probabilities((1 - d.square() / 2).to(dtype), torch.ones(2, 3, dtype=torch.bool), dim)
    want = (log_weight(d[1], dim) - log_weight(d[1, 0], dim)).exp()
    assert got[1].tolist() == pytest.approx((want / want.sum()).tolist(), rel=1e-3)
    assert got[1, 0] > 3 * got[1, 2] > 0
    assert got[0, 0] == 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_negative_for_each_positive_pair(seed):
    s, positive, negative = random_seen(seed)
    found = triplet_list(distance_weighted(s, positive, negative, dim=5, generator=torch.Generator().manual_seed(seed)))
    assert [t[:2] for t in found] == [(a, p) for a in range(len(s)) for p in columns(positive, a)]


def test_draws_follow_the_chances():
    s, positive, negative = random_seen(4)
    chances = probabilities(s, negative, 5)
    source = torch.Generator().manual_seed(0)
    drawn = torch.zeros(s.shape)
    for _ in range(1500):
        found = distance_weighted(s, positive, negative, dim=5, generator=source)
        drawn.index_put_((found.anchors, found.negatives), torch.ones(len(found.anchors)), accumulate=True)
    tests = [chi_square(drawn[i].tolist(), chances[i].tolist()) for i in range(len(s)) if drawn[i].any()]
    statistic, freedom = (sum(part) for part in zip(*tests, strict=True))
    assert freedom > 30
    assert abs(statistic - freedom) < 3 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("dim", [None, 1])
def test_the_embedding_size_is_needed(dim):
    with pytest.raises(UserError, match=f"dim is {dim}; distance weighting needs the embedding size"):
        distance_weighted(*seen(B, B_LABELS), dim=dim)
