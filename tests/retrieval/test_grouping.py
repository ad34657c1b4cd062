"""Clusters without labels: planted communities, whatever the order of samples; new samples join their neighbours."""

from __future__ import annotations

import pytest
import torch

from benchmarks.rounds import peak_memory
from similis.retrieval.grouping import group_vectors, join_groups, neighbor_graph
from similis.values import UserError
from tests.retrieval.test_suspects import clouds

pytest.importorskip("sknetwork", reason="needs scikit-network")
adjusted_rand_score = pytest.importorskip("sklearn.metrics").adjusted_rand_score


@pytest.mark.parametrize("resolution", [1.0, 5.0])
def test_planted_communities_are_found_and_numbered_by_size(resolution):
    x, labels = clouds(classes=30, each=20, dim=64, spread=0.05)
    kept = torch.arange(len(x)) >= 5  # class 0 is the smallest
    found = group_vectors(x[kept], resolution)
    assert adjusted_rand_score(labels[kept], found) == 1.0
    assert found.bincount().tolist() == [20] * 29 + [15]
    assert found[0] == 29


def test_order_and_earlier_calls_do_not_matter():
    x, _ = clouds(classes=40, each=25, spread=0.4)  # overlapping: many partitions are nearly as good
    found, order = group_vectors(x), torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    assert adjusted_rand_score(found[order], group_vectors(x[order])) == 1.0
    assert torch.equal(group_vectors(x), found)


def test_a_higher_resolution_gives_more_clusters():
    x, _ = clouds(classes=40, each=25, spread=0.4)
    counts = [int(group_vectors(x, resolution).max()) + 1 for resolution in (1, 5, 20)]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize(("classes", "each"), [(2, 4), (3, 8), (4, 12)])
def test_few_samples_do_not_fall_apart(classes, each):
    x, labels = clouds(classes=classes, each=each, dim=64, spread=0.05)
    assert adjusted_rand_score(labels, group_vectors(x, 20.0)) == 1.0


@pytest.mark.parametrize("count", [0, 1, 2, 11, 500])
def test_equal_vectors_are_one_cluster(count):
    assert group_vectors(torch.ones(count, 4)).tolist() == [0] * count


def test_copies_share_a_cluster_and_change_no_other():
    x, _ = clouds(classes=40, each=25, spread=0.4)
    found = group_vectors(torch.cat([x, x[:1].expand(300, -1)]))
    assert found[len(x) :].unique().tolist() == [int(found[0])]
    assert adjusted_rand_score(found[: len(x)], group_vectors(x)) == 1.0


@pytest.mark.parametrize(("count", "k"), [(2, 1), (30, 5), (150, 10)])
def test_the_graph_is_that_of_plain_loops(count, k):
    x = clouds(each=count // 2, classes=2, dim=4, spread=1.0)[0]
    cosines, rows = (x @ x.T).tolist(), range(count)
    near = [sorted({*rows} - {i}, key=lambda j, i=i: -cosines[i][j])[:k] for i in rows]
    expected = [[max(cosines[i][j], 1e-3) if j in near[i] or i in near[j] else 0 for j in rows] for i in rows]
    assert torch.allclose(torch.from_numpy(neighbor_graph(x).toarray()), torch.tensor(expected), atol=1e-6)


def test_new_samples_join_by_the_weight_of_their_neighbours():
    old = torch.eye(4)[[0, 0, 1, 1, 1, 2]]
    assignment = torch.tensor([0, 0, 1, 1, 1, 2])
    new = torch.tensor([[1.0, 0.1, 0, 0], [0.1, 1.0, 0, 0], [0.7, 0.5, 0, 0], [0.6, 0.5, 0, 0], [0, 0, 1.0, 0]])
    assert join_groups(new, old, assignment).tolist() == [0, 1, 1, 1, 2]
    assert join_groups(torch.tensor([[1.0, 0.5, 0, 0]]), old, assignment).tolist() == [0]
    x, labels = clouds(classes=5, each=20)
    held = torch.arange(100) % 4 > 0
    assert torch.equal(join_groups(x[~held], x[held], labels[held]), labels[~held])
    far = join_groups(-x[:5], x[held], labels[held])
    assert set(far.tolist()) <= set(range(5))


def many(count):
    """The work whose memory is measured: clusters of vectors that are there already."""
    group_vectors(torch.randn(200, 8))  # what is imported counts before
    x = torch.randn(count, 8, generator=torch.Generator().manual_seed(0))
    return lambda: group_vectors(x)


@pytest.mark.slow
def test_memory_is_not_that_of_all_pairs():
    count = 10_000
    assert peak_memory("tests.retrieval.test_grouping:many", count) < 4 * count**2 / 2


@pytest.mark.parametrize("resolution", [0, -1.0, float("nan"), float("inf")])
def test_an_impossible_resolution_is_refused(resolution):
    with pytest.raises(UserError, match="give a positive number"):
        group_vectors(torch.eye(3), resolution)
