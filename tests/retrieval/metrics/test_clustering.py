"""K-means: the steps of scikit-learn from equal centres, seeds, empty clusters, tiles."""

import math
import statistics

import pytest
import torch
from sklearn.cluster import KMeans, kmeans_plusplus

from similis.retrieval.metrics import clustering
from similis.retrieval.metrics.clustering import kmeans, nearest_centre, plus_plus
from similis.values import UserError


def chance(seed=0):
    return torch.Generator().manual_seed(seed)


def blobs(count, k, dim=5):
    x = torch.randn(count, dim, dtype=torch.float64, generator=chance(1))
    return x + 2 * torch.randn(k, dim, dtype=torch.float64, generator=chance(2))[torch.arange(count) % k]


def inertia(x, assignment):
    """The sum of squared distances to the means of the clusters."""
    held = (x[assignment == cluster] for cluster in assignment.unique())
    return sum(float((rows - rows.mean(dim=0)).square().sum()) for rows in held)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_equal_to_scikit_learn_from_the_same_centres(k):
    x = blobs(400, k)
    start = plus_plus(x, k, chance())
    ours = kmeans(x, k, generator=chance(), steps=300, tile=1000)
    theirs = KMeans(k, init=start.numpy(), n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(x.numpy())
    assert ours.tolist() == theirs.labels_.tolist()
    assert inertia(x, ours) == pytest.approx(theirs.inertia_, rel=1e-10)


def test_as_good_as_scikit_learn_from_its_own_seeds():
    x = blobs(600, 12)
    ours = min(inertia(x, kmeans(x, 12, generator=chance(seed), steps=300)) for seed in range(8))
    theirs = KMeans(12, n_init=8, random_state=0).fit(x.numpy()).inertia_  # its seeds are the best of several draws
    assert ours <= 1.03 * theirs


def test_seeds_are_spread_as_those_of_scikit_learn():
    x = torch.cat([blobs(150, 6), 30 + blobs(30, 3), torch.full((1, 5), 200.0)]).double()
    ours = [float(nearest_centre(x, plus_plus(x, 6, chance(seed)))[1].sum()) for seed in range(60)]
    theirs = []
    for seed in range(60):
        start, _ = kmeans_plusplus(x.numpy(), 6, random_state=seed, n_local_trials=1)
        theirs.append(float(nearest_centre(x, torch.from_numpy(start))[1].sum()))
    error = math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / 60)
    assert abs(statistics.mean(ours) - statistics.mean(theirs)) < 3 * error
    assert error < 0.1 * statistics.mean(theirs)


def test_a_seed_decides_and_no_global_state_is_touched():
    x = blobs(300, 9)
    before = torch.get_rng_state()
    first, again, other = (kmeans(x, 9, generator=chance(seed), steps=1) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert inertia(x, first) != inertia(x, other)
    assert torch.equal(before, torch.get_rng_state())


def test_first_centres_are_rows_and_far_ones_are_preferred():
    x = torch.cat([torch.zeros(500, 2), torch.full((1, 2), 100.0)])
    for seed in range(5):
        found = plus_plus(x, 2, chance(seed))
        assert sorted(found[:, 0].tolist()) == [0.0, 100.0]


def test_more_clusters_than_distinct_rows_and_a_cluster_that_runs_empty(monkeypatch):
    assert inertia(torch.ones(6, 2), kmeans(torch.ones(6, 2), 4, generator=chance())) == 0.0
    x = torch.tensor([[0.0], [0.1], [9.0], [9.1], [50.0]])
    monkeypatch.setattr(clustering, "plus_plus", lambda *_: torch.tensor([[0.0], [9.0], [1000.0]]))
    found = kmeans(x, 3, generator=chance())
    assert inertia(x, found) == pytest.approx(0.01, abs=1e-4)
    assert len(set(found.tolist())) == 3


def test_equal_distances_go_to_the_lowest_centre_in_any_tile():
    x = torch.tensor([[0.0], [4.0], [2.0]])
    centres = torch.tensor([[1.0], [3.0]])
    for tile in (1, 100):
        place, far = nearest_centre(x, centres, tile)
        assert (place.tolist(), far.tolist()) == ([0, 1, 0], [1.0, 1.0, 1.0])


def test_k_must_fit():
    for k in (0, 4):
        with pytest.raises(UserError, match="from 1 to"):
            kmeans(torch.ones(3, 1), k, generator=chance())
