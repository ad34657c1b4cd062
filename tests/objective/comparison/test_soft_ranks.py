"""Soft ranks: against counting, and towards whole numbers."""

import torch

from similis.objective.comparison.compare import compare
from similis.objective.comparison.soft_ranks import soft_ranks
from similis.objective.context import tiles
from tests.batches import random_batch


def test_cold_ranks_are_counts():
    x, labels = random_batch(1, duplicates=False)
    for context in (tiles(3, 4), tiles(100, 100)):
        with context:
            p = compare(x, labels, sphere=True)
            ranks = soft_ranks(p, 1e-9)
        index, real = p.positives()
        assert torch.equal(real, ranks.real)
        rows = torch.nn.functional.normalize(x)
        s = rows @ rows.T
        for i in range(11):
            for place in range(index.shape[1]):
                if not real[i, place]:
                    continue
                own = s[i, index[i, place]]
                siblings = [j for j in range(11) if labels[j] == labels[i] and j != i]
                strangers = [j for j in range(11) if labels[j] != labels[i]]
                assert round(ranks.among_positives[i, place].item()) == 1 + sum(bool(s[i, j] > own) for j in siblings)
                assert round(ranks.negatives_before[i, place].item()) == sum(bool(s[i, j] > own) for j in strangers)


def test_warm_ranks_lie_half_way():
    x, labels = random_batch(0)
    ranks = soft_ranks(compare(x, labels, sphere=True), 1e9)
    size = torch.bincount(labels)[labels].double()
    want = 1 + (size - 2).clamp(min=0) / 2
    real = ranks.real
    assert torch.allclose(ranks.among_positives[real], want[:, None].expand_as(real)[real])
    assert torch.allclose(ranks.negatives_before[real], ((11 - size) / 2)[:, None].expand_as(real)[real])
