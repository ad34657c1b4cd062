"""All pairs: the sets of the definition, and the counts of the worked batches."""

import pytest

from similis.objective.miners.all_pairs import all_pairs
from similis.values import Counts
from tests.batches import A_LABELS, B_LABELS, A, B
from tests.objective.miners.plain_sets import columns, pair_lists, random_seen, seen


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_are_the_sets_of_the_definition(seed):
    s, positive, negative = random_seen(seed)
    want = tuple([(i, j) for i in range(len(s)) for j in columns(mask, i)] for mask in (positive, negative))
    assert pair_lists(all_pairs(s, positive, negative)) == want


def test_counts():
    assert all_pairs(*seen(A, A_LABELS)).counts() == Counts(6 + 24, 6)
    assert all_pairs(*seen(B, B_LABELS)).counts() == Counts(12 + 18, 6)
