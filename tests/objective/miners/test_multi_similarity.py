"""Multi-similarity mining: oracle in loops, worked sets, both kinds or none."""

import pytest

from similis.objective.miners.multi_similarity import multi_similarity
from similis.values import Counts
from tests.batches import A_LABELS, B_LABELS, A, B
from tests.objective.miners.plain_sets import columns, pair_lists, random_seen, seen


def oracle(s, positive, negative, slack):
    near, far = [], []
    for i in range(len(s)):
        own, other = columns(positive, i), columns(negative, i)
        if own and other:
            nearest, farthest = max(float(s[i, n]) for n in other), min(float(s[i, p]) for p in own)
            near += [(i, p) for p in own if float(s[i, p]) < nearest + slack]
            far += [(i, n) for n in other if float(s[i, n]) > farthest - slack]
    return near, far


@pytest.mark.parametrize("slack", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_are_the_sets_of_the_definition(seed, slack):
    s, positive, negative = random_seen(seed)
    near, far = pair_lists(multi_similarity(s, positive, negative, slack_cos=slack))
    assert (near, far) == oracle(s, positive, negative, slack)
    assert {i for i, _ in near} == {i for i, _ in far}


def test_worked_sets():
    found = multi_similarity(*seen(A, A_LABELS))
    assert pair_lists(found) == ([(3, 2)], [(3, 4)])
    assert found.counts() == Counts(2, 1)
    near, far = pair_lists(multi_similarity(*seen(B, B_LABELS)))
    kept = [([p for a, p in near if a == i], [n for a, n in far if a == i]) for i in range(6)]
    assert kept == [([2], [3]), ([2], [3]), ([0, 1], [3, 4]), ([4, 5], [0, 1, 2]), ([3, 5], [2]), ([3], [2])]
