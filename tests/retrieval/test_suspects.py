"""Votes, belonging and classes that look alike, against plain loops and planted faults."""

from __future__ import annotations

import math

import torch

from similis.retrieval.suspects import belonging, label_votes, nearest_samples, similar_classes, strangeness


def clouds(classes=6, each=20, dim=16, spread=0.15, seed=0):
    chance = torch.Generator().manual_seed(seed)
    centres = torch.nn.functional.normalize(torch.randn(classes, dim, generator=chance), dim=1)
    labels = torch.arange(classes).repeat_interleave(each)
    x = centres[labels] + spread * torch.randn(len(labels), dim, generator=chance)
    return torch.nn.functional.normalize(x, dim=1), labels


def test_votes_are_those_of_a_plain_loop():
    x, labels = clouds(spread=0.6)
    k, temperature = 15, 0.1
    votes = label_votes(nearest_samples(x, k), labels, temperature=temperature)
    shares = torch.zeros(6, 6)
    for i in range(len(x)):
        near = sorted(((float(x[i] @ x[j]), j) for j in range(len(x)) if j != i), reverse=True)[:k]
        held = [0.0] * 6
        for s, j in near:
            held[int(labels[j])] += math.exp((s - near[0][0]) / temperature)
        assert math.isclose(float(votes.doubt[i]), 1 - held[int(labels[i])] / max(held), abs_tol=1e-4)
        assert held[int(votes.suggestion[i])] == max(held)
        shares[int(labels[i])] += torch.tensor(held) / sum(held) / 20
    torch.testing.assert_close(votes.shares, shares, atol=1e-4, rtol=0)


def test_belonging_is_that_of_a_plain_loop():
    x, labels = clouds(spread=0.6)
    near = nearest_samples(x, 30)
    found = belonging(near, labels, support=4)
    for i in range(len(x)):
        floor = float(near.similarity[i, -1])
        best = -2.0
        for c in range(6):
            own = [float(s) for s, j in zip(near.similarity[i], near.index[i], strict=True) if labels[j] == c][:4]
            best = max(best, sum(own + [floor] * (4 - len(own))) / 4)
        assert math.isclose(float(found[i]), best, abs_tol=1e-5)


def test_planted_wrong_labels_come_first():
    x, labels = clouds(each=30)
    wrong = torch.arange(0, len(labels), 15)
    given = labels.clone()
    given[wrong] = (given[wrong] + 1) % 6
    votes = label_votes(nearest_samples(x), given)
    first = votes.doubt.argsort(descending=True)[: len(wrong)]
    assert sorted(first.tolist()) == wrong.tolist()
    assert (votes.suggestion[wrong] == labels[wrong]).all()


def test_foreign_samples_are_strange_even_when_they_resemble_each_other():
    x, labels = clouds(each=30)
    foreign, _ = clouds(classes=1, each=4, spread=0.02, seed=2)
    assert float((foreign @ x.T).max()) < 0.5
    given = torch.cat([labels, torch.tensor([0, 1, 2, 3])])
    score = strangeness(nearest_samples(torch.cat([x, foreign])), given)
    assert set(score.argsort(descending=True)[:4].tolist()) == {180, 181, 182, 183}


def test_one_class_cut_in_two_looks_alike():
    x, labels = clouds(each=30)
    given = torch.where((labels == 2) & (torch.arange(len(labels)) % 2 == 0), 6, labels)
    pairs = similar_classes(label_votes(nearest_samples(x), given).shares)
    assert [(a, b) for a, b, _ in pairs] == [(2, 6)]
