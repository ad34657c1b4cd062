"""The semi-hard band: oracle in loops, in both geometries."""

import math

import pytest

from similis.objective.miners.semi_hard_band import semi_hard_band
from similis.values import UserError
from tests.batches import B_LABELS, B
from tests.objective.miners.plain_sets import every_triplet, random_seen, seen, triplet_list


def distance(s):
    squared = 2 - 2 * s
    return math.sqrt(squared) if squared > 1e-14 else 0.0


def oracle(s, positive, negative, margin, geometry):
    far = (lambda v: -v) if geometry == "cosine" else distance
    return [
        (a, p, n)
        for a, p, n in every_triplet(positive, negative)
        if 0 < far(float(s[a, n])) - far(float(s[a, p])) <= margin
    ]


@pytest.mark.parametrize("geometry", ["cosine", "euclid"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_is_the_set_of_the_definition(seed, geometry):
    s, positive, negative = random_seen(seed)
    for margin in (0.1, 0.3, 1.0):
        found = semi_hard_band(s, positive, negative, margin=margin, geometry=geometry)
        assert triplet_list(found) == oracle(s, positive, negative, margin, geometry)
    assert len(found.anchors) > 5


def test_an_unknown_geometry_is_refused():
    with pytest.raises(UserError, match="did you mean 'euclid'"):
        semi_hard_band(*seen(B, B_LABELS), geometry="euclid2")
