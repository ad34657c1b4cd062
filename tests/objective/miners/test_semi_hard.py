"""Semi-hard triplets: oracle in loops, the three ways out when there is none."""

import pytest
import torch

from similis.objective.miners.semi_hard import semi_hard
from similis.values import UserError
from tests.batches import B_LABELS, B
from tests.objective.miners.plain_sets import chi_square, columns, random_seen, seen, triplet_list

WORKED_B = [
    (0, 1, 3), (0, 2, 4), (1, 0, 3), (1, 2, 4), (2, 0, 5), (2, 1, 5), (3, 4, 0), (4, 3, 1), (4, 5, 1), (5, 3, 1),
    (5, 4, 2),
]  # fmt: skip


def oracle(s, positive, negative, missing):
    found = []
    for a in range(len(s)):
        far = columns(negative, a)
        for p in columns(positive, a):
            fit = [n for n in far if s[a, n] < s[a, p]]
            if fit:
                found.append((a, p, max(fit, key=lambda k: s[a, k])))
            elif far and missing == "easiest":
                found.append((a, p, min(far, key=lambda k: s[a, k])))
    return found


@pytest.mark.parametrize("missing", ["skip", "easiest"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_is_the_set_of_the_definition(seed, missing):
    s, positive, negative = random_seen(seed)
    for given in (s, (s * 2).round() / 2):  # of few levels, where ties go to the lowest column
        found = triplet_list(semi_hard(given, positive, negative, missing=missing))
        assert found == oracle(given, positive, negative, missing)


def test_ways_out_for_the_pair_without_one():
    """B: no negative is farther from 3 than 5 is; the easiest is 0."""
    easiest = triplet_list(semi_hard(*seen(B, B_LABELS), missing="easiest"))
    assert sorted(set(easiest) - set(WORKED_B)) == [(3, 5, 0)]
    assert len(easiest) == 12
    source = torch.Generator().manual_seed(0)
    drawn = []
    for _ in range(1500):
        found = triplet_list(semi_hard(*seen(B, B_LABELS), missing="random", generator=source))
        assert [t for t in found if t[:2] != (3, 5)] == WORKED_B
        drawn += [n for a, p, n in found if (a, p) == (3, 5)]
    statistic, freedom = chi_square([drawn.count(n) for n in (0, 1, 2)], [1 / 3] * 3)
    assert (len(drawn), freedom) == (1500, 2)
    assert statistic < 9.2


def test_an_unknown_way_out_is_refused():
    with pytest.raises(UserError, match="did you mean 'easiest'"):
        semi_hard(*seen(B, B_LABELS), missing="easy")
