"""All triplets: the set of the definition, and the counts of the worked batches."""

import pytest

from similis.objective.miners.all_triplets import all_triplets
from similis.values import Counts
from tests.batches import A_LABELS, B_LABELS, A, B
from tests.objective.miners.plain_sets import columns, random_seen, seen, triplet_list


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_is_the_set_of_the_definition(seed):
    s, positive, negative = random_seen(seed)
    want = [(a, p, n) for a in range(len(s)) for p in columns(positive, a) for n in columns(negative, a)]
    assert triplet_list(all_triplets(s, positive, negative)) == want


def test_counts():
    assert all_triplets(*seen(A, A_LABELS)).counts() == Counts(24, 6)
    assert all_triplets(*seen(B, B_LABELS)).counts() == Counts(36, 6)
