"""Graded answers, two sets, and intervals of an evaluation: against plain loops and against peers."""

from __future__ import annotations

import math

import pytest
import torch

import similis
from similis.retrieval.intervals import mean_interval
from similis.values import Embedded, UserError


def drawn(rows=30, labels=5, seed=0):
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 6, generator=chance), (torch.rand(rows, labels, generator=chance) < 0.3).long()


def plain(similarity, gain, ks):
    """nDCG@k, mAP, recall@k of one query by loops; of equal similarity the lower gain first."""
    order = sorted(range(len(gain)), key=lambda i: (-similarity[i], gain[i]))
    found, best = [gain[i] for i in order], sorted(gain, reverse=True)
    if not best or best[0] == 0:
        return None
    values = {}
    for k in ks:
        got, ideal = (sum(g / math.log2(i + 2) for i, g in enumerate(each[:k])) for each in (found, best))
        values[f"ndcg@{k}"] = got / ideal
        values[f"recall@{k}"] = float(any(g > 0 for g in found[:k]))
    hits = [i + 1 for i, g in enumerate(found) if g > 0]
    values["map"] = sum((m + 1) / rank for m, rank in enumerate(hits)) / len(hits)
    return values


def test_several_labels_against_plain_loops():
    x, labels = drawn()
    x[3] = x[7]  # a tie
    found = similis.evaluate(x, labels, ks=(1, 5), tile=64)
    unit = torch.nn.functional.normalize(x, dim=1)
    for query in range(len(x)):
        others = [i for i in range(len(x)) if i != query]
        similarity = [
            float(unit[query] @ unit[i]) if not torch.equal(x[i], x[3]) else float(unit[query] @ unit[3])
            for i in others
        ]
        want = plain(similarity, [int((labels[query] & labels[i]).sum()) for i in others], (1, 5))
        for name, value in (want or {}).items():
            assert found.per_query[name][query] == pytest.approx(value, abs=1e-12), (query, name)
        assert (want is None) == bool(found.per_query["map"][query].isnan())
    assert found.excluded == int(found.per_query["map"].isnan().sum())


def test_relevance_of_queries_and_a_gallery_of_their_own():
    x, _ = drawn()
    gains = torch.randint(4, (10, 20), generator=torch.Generator().manual_seed(1))
    found = similis.evaluate(
        x[:10], torch.zeros(10, dtype=torch.long), gallery=(x[10:], [0] * 20), relevance=gains, ks=(3,)
    )
    unit = torch.nn.functional.normalize(x, dim=1)
    for query in range(10):
        want = plain((unit[query] @ unit[10:].T).tolist(), gains[query].tolist(), (3,))
        assert found.per_query["ndcg@3"][query] == pytest.approx(want["ndcg@3"], abs=1e-12)
        assert found.neighbors.index[query].min() >= 10


def test_a_gallery_of_its_own_equals_masks_of_one_set():
    x, labels = drawn()[0], torch.arange(30) % 4
    asks = torch.arange(30) < 12
    one = similis.evaluate(x, labels, queries=asks, gallery=~asks)
    two = similis.evaluate(x[:12], labels[:12], gallery=(x[12:], labels[12:]))
    named = similis.evaluate(
        Embedded(x[:12], labels[:12], torch.arange(12)), gallery=Embedded(x[12:], labels[12:], torch.arange(12, 30))
    )
    assert one.means == two.means == named.means


def test_intervals_and_paired_differences():
    x, labels = drawn()[0], torch.arange(30) % 4
    first, second = similis.evaluate(x, labels), similis.evaluate(x + torch.eye(6)[labels] * 3, labels)
    assert first.interval("map@r") == mean_interval(first.per_query["map@r"], labels)
    gain = similis.compare(first, second)["recall@1"]
    assert gain.value == pytest.approx(second.means["recall@1"] - first.means["recall@1"])
    assert gain.low <= gain.value <= gain.high
    with pytest.raises(UserError, match="different queries"):
        similis.compare(first, similis.evaluate(x[:20], labels[:20]))
