"""All triplets: the set of the definition."""

import pytest

from similis.objective.miners.all_triplets import all_triplets
from tests.objective.miners.plain_sets import every_triplet, random_seen, triplet_list


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_is_the_set_of_the_definition(seed):
    s, positive, negative = random_seen(seed)
    assert triplet_list(all_triplets(s, positive, negative)) == every_triplet(positive, negative)
