"""Clusters without a number: the same as linking everything at once, whatever the components."""

from __future__ import annotations

import pytest
import torch

from similis.retrieval import grouping
from similis.retrieval.grouping import describe, group_vectors, grouping_threshold, join_groups
from similis.retrieval.metrics.agreement import pair_f1
from similis.values import UserError
from tests.retrieval.test_suspects import clouds

cluster = pytest.importorskip("sklearn.cluster", reason="needs scikit-learn")


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("edges", [2**24, 40], ids=["together", "merged often"])
def test_equal_to_linking_all_at_once(threshold, edges, monkeypatch):
    monkeypatch.setattr(grouping, "EDGES", edges)
    monkeypatch.setattr(grouping, "TILE", 700)
    x, _ = clouds(spread=0.3, each=25)
    found = group_vectors(x, threshold)
    distances = (1 - x @ x.T).clamp(min=0).numpy()
    whole = cluster.AgglomerativeClustering(
        n_clusters=None, metric="precomputed", linkage="average", distance_threshold=1 - threshold
    )
    peer = torch.from_numpy(whole.fit_predict(distances))
    assert pair_f1(peer, found.assignment) == 1.0
    assert int(found.assignment.max()) + 1 == whole.n_clusters_
    assert found.assignment.bincount().tolist() == sorted(found.assignment.bincount().tolist(), reverse=True)
    assert found.approximate == 0


def test_a_component_that_is_too_large_is_divided_and_said(monkeypatch):
    monkeypatch.setattr(grouping, "LARGEST", 30)
    x, labels = clouds(each=25)
    found = group_vectors(x, 0.0)
    assert found.approximate > 0
    assert pair_f1(labels, found.assignment) > 0.5


def test_fit_is_that_of_plain_loops():
    x, labels = clouds(each=5, spread=0.5)
    found = describe(x, labels)
    for i in range(len(x)):
        own = [float(x[i] @ x[j]) for j in range(len(x)) if labels[j] == labels[i] and j != i]
        others = [
            sum(float(x[i] @ x[j]) for j in range(len(x)) if labels[j] == c) / 5 for c in range(6) if c != labels[i]
        ]
        assert float(found.cohesion[i]) == pytest.approx(sum(own) / len(own), abs=1e-5)
        assert float(found.rival[i]) == pytest.approx(max(others), abs=1e-5)


def test_the_threshold_of_labelled_classes_serves_others():
    x, labels = clouds(classes=12, each=20)
    threshold, score = grouping_threshold(x[:120], labels[:120])
    assert score > 0.95
    assert pair_f1(labels[120:], group_vectors(x[120:], threshold).assignment) > 0.95
    with pytest.raises(UserError, match="two classes"):
        grouping_threshold(x[:20], labels[:20])


def test_new_samples_join_or_open_clusters():
    x, labels = clouds(classes=6, each=20)
    held, new = labels < 4, torch.tensor([0, 1, 85, 86, 87, 119])
    old = held.clone()
    old[:2] = False
    found = join_groups(x[new], x[old], labels[old], 0.5)
    assert found[:2].tolist() == [0, 0]
    assert found[2] == found[3] == found[4] == 4
    assert found[5] == 5


def test_an_impossible_threshold_is_refused():
    with pytest.raises(UserError, match="between -1 and 1"):
        group_vectors(torch.eye(3), 7.0)
