"""Batch-hard: oracle in loops, ties, the variant with every hard triplet."""

import pytest
import torch

from similis.objective.miners.batch_hard import batch_hard
from tests.objective.miners.plain_sets import columns, every_triplet, random_seen, seen, triplet_list


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_is_the_set_of_the_definition(seed):
    s, positive, negative = random_seen(seed)
    want = []
    for a in range(len(s)):
        near, far = columns(positive, a), columns(negative, a)
        if near and far:  # min and max keep the first of equal ones
            want.append((a, min(near, key=lambda k: s[a, k]), max(far, key=lambda k: s[a, k])))
    assert triplet_list(batch_hard(s, positive, negative)) == want


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_every_hard_triplet(seed):
    s, positive, negative = random_seen(seed)
    want = [(a, p, n) for a, p, n in every_triplet(positive, negative) if s[a, n] > s[a, p]]
    assert want
    assert triplet_list(batch_hard(s, positive, negative, every=True)) == want


def test_ties_go_to_the_lowest_column():
    labels = torch.tensor([0, 1] * 40)
    s, positive, negative = torch.zeros(80, 80), *seen(torch.ones(80, 2), labels)[1:]
    assert triplet_list(batch_hard(s, positive, negative))[:3] == [(0, 2, 1), (1, 3, 0), (2, 0, 1)]
