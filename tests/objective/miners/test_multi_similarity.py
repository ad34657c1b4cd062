"""Multi-similarity mining: oracle in loops, both kinds or none."""

import pytest

from similis.objective.miners.multi_similarity import multi_similarity
from tests.objective.miners.plain_sets import columns, pair_lists, random_seen


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
