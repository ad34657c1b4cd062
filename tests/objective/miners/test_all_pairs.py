"""All pairs: the sets of the definition."""

import pytest

from similis.objective.miners.all_pairs import all_pairs
from tests.objective.miners.plain_sets import columns, pair_lists, random_seen


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_are_the_sets_of_the_definition(seed):
    s, positive, negative = random_seen(seed)
    want = tuple([(i, j) for i in range(len(s)) for j in columns(mask, i)] for mask in (positive, negative))
    assert pair_lists(all_pairs(s, positive, negative)) == want
