"""Classification by a labelled gallery, and the threshold of unknown, against plain loops."""

import math

import pytest
import torch

from similis.retrieval.classification import classify_neighbors, unknown_threshold
from similis.retrieval.search import search
from similis.values import UserError


def plain_class(similarity, labels, k):
    """The winning label of one query by loops over its similarities."""
    near = sorted(range(len(similarity)), key=lambda row: (-similarity[row], row))[:k]
    votes = {}
    for row in near:
        votes.setdefault(labels[row], []).append(similarity[row])
    order = [labels[row] for row in near]
    size = {label: labels.count(label) for label in votes}
    won = {label: sum(math.exp(s / 0.03) for s in votes[label]) / size[label] for label in votes}
    best = max(votes, key=lambda label: (won[label], -order.index(label)))
    return best, max(votes[best])


@pytest.mark.parametrize("k", [1, 2, 3, 7, 50])
def test_classes_equal_plain_loops(k):
    chance = torch.Generator().manual_seed(k)
    queries, gallery = torch.randn(30, 4, generator=chance), torch.randn(20, 4, generator=chance)
    gallery[5] = gallery[2]
    labels = torch.randint(4, (20,), generator=chance) * 10
    found = classify_neighbors(search(queries, gallery, k), labels)
    near = search(queries, gallery, 20)
    for q in range(30):
        similarity = [0.0] * 20
        for row, value in zip(near.index[q].tolist(), near.similarity[q].tolist(), strict=True):
            similarity[row] = value
        label, score = plain_class(similarity, labels.tolist(), k)
        assert (int(found.labels[q]), float(found.scores[q])) == (label, pytest.approx(score, abs=1e-6))


def test_a_query_without_neighbours_has_no_class():
    groups = (torch.tensor([0, 1]), torch.tensor([0, 0]))
    found = classify_neighbors(search(torch.eye(2), torch.eye(2), 2, groups=groups), torch.tensor([4, 5]))
    assert found.labels.tolist() == [-1, 5]
    assert found.scores.tolist() == [-math.inf, 1.0]


@pytest.mark.parametrize("refuse", [0.0, 0.05, 0.3, 1.0])
def test_the_threshold_of_unknown_refuses_the_share_that_it_states(refuse):
    chance = torch.Generator().manual_seed(7)
    labels = torch.cat([torch.arange(6).repeat_interleave(40), torch.tensor([6])])
    x = torch.randn(7, 5, generator=chance)[labels] + 0.9 * torch.randn(241, 5, generator=chance)
    x = torch.nn.functional.normalize(x.double(), dim=1)
    others = (x @ x.T).fill_diagonal_(-1)[:240].amax(1)  # the lone one does not ask
    found = unknown_threshold(x, labels, refuse)
    refused = int((others < found).sum())
    strangers = (x @ x.T).masked_fill(labels[:, None] == labels, -1)[:240].amax()
    assert refused == min(int(refuse * 240), int((others <= strangers).sum()))
    assert abs(unknown_threshold(x, labels, 0.3, sample=200) - unknown_threshold(x, labels, 0.3)) < 0.01


def test_classes_that_are_far_apart_refuse_no_more_than_they_must():
    x = torch.nn.functional.normalize(torch.eye(6).repeat(2, 1) + 0.01 * torch.eye(12)[:, :6], dim=1)
    x[6:] += 0.001  # near-copies: a new photo will not be as near
    assert unknown_threshold(x, torch.arange(6).repeat(2)) < 0.1


def test_known_photos_that_were_held_out_are_refused_as_often_as_stated():
    chance = torch.Generator().manual_seed(3)
    labels = torch.arange(50).repeat_interleave(60)
    x = torch.nn.functional.normalize(
        torch.randn(50, 16, generator=chance)[labels] + torch.randn(3000, 16, generator=chance), dim=1
    )
    shown = torch.rand(3000, generator=chance) < 0.8
    limit = unknown_threshold(x[shown], labels[shown])
    refused = search(x[~shown], x[shown], 1).similarity[:, 0] < limit
    assert 0.03 < float(refused.double().mean()) < 0.07


def test_a_gallery_of_single_photos_accepts_one_stranger_in_twenty():
    x = torch.nn.functional.normalize(torch.randn(40, 6, generator=torch.Generator().manual_seed(3)), dim=1)
    limit = unknown_threshold(x, torch.arange(40))
    assert ((x @ x.T).fill_diagonal_(-1).amax(1) >= limit).sum() == 2
    with pytest.raises(UserError, match="two classes or more"):
        unknown_threshold(x, torch.zeros(40, dtype=torch.long))
