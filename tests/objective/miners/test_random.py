"""Random triplets: one for each anchor with both sets, uniform over both."""

import itertools

import pytest
import torch

from similis.objective.miners.random import random
from tests.batches import B_LABELS, B
from tests.objective.miners.plain_sets import chi_square, columns, random_seen, seen, triplet_list


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_valid_triplet_for_each_anchor_that_has_both_sets(seed):
    s, positive, negative = random_seen(seed)
    found = triplet_list(random(s, positive, negative, generator=torch.Generator().manual_seed(seed)))
    assert [a for a, _, _ in found] == [i for i in range(len(s)) if columns(positive, i) and columns(negative, i)]
    assert all(positive[a, p] and negative[a, n] for a, p, n in found)


def test_uniform_over_positives_and_negatives_together():
    s, positive, negative = seen(B, B_LABELS)
    source = torch.Generator().manual_seed(0)
    drawn = [triplet_list(random(s, positive, negative, generator=source))[0] for _ in range(3000)]
    cells = list(itertools.product([1, 2], [3, 4, 5]))
    statistic, freedom = chi_square([drawn.count((0, p, n)) for p, n in cells], [1 / 6] * 6)
    assert freedom == 5
    assert statistic < 15.1  # one seed in a hundred would exceed it by chance
    assert statistic > 0.1  # draws, not a round robin
