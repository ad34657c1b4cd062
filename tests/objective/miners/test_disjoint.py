"""Disjoint tuples: valid, no image twice, and no tuple could be added."""

import pytest
import torch

from similis.objective.miners.disjoint import disjoint, disjoint_pairs
from tests.batches import A_LABELS, B_LABELS, A, B
from tests.objective.miners.plain_sets import pair_lists, random_seen, seen, triplet_list


@pytest.mark.parametrize("memory", [0, 7])
@pytest.mark.parametrize("seed", range(6))
def test_triplets_are_disjoint_and_no_other_fits(seed, memory):
    s, positive, negative = random_seen(seed, memory)
    found = triplet_list(disjoint(s, positive, negative, generator=torch.Generator().manual_seed(seed)))
    assert all(positive[a, p] and negative[a, n] for a, p, n in found)
    used = [i for t in found for i in t]
    assert len(used) == len(set(used))
    free = [i for i in range(s.shape[1]) if i not in used]
    for a in (i for i in free if i < len(s)):
        assert not (any(positive[a, j] for j in free) and any(negative[a, j] for j in free))


@pytest.mark.parametrize("memory", [0, 7])
@pytest.mark.parametrize("seed", range(6))
def test_pairs_are_disjoint_and_no_other_fits(seed, memory):
    s, positive, negative = random_seen(seed, memory)
    near, far = pair_lists(disjoint_pairs(s, positive, negative, generator=torch.Generator().manual_seed(seed)))
    assert all(positive[a, p] for a, p in near)
    assert all(negative[a, n] for a, n in far)
    used = [i for t in near + far for i in t]
    assert len(used) == len(set(used))
    free = [i for i in range(s.shape[1]) if i not in used]
    for a in (i for i in free if i < len(s)):
        assert not any(positive[a, j] or negative[a, j] for j in free)


def test_worked_batches():
    """Six images: whatever the first triplet takes, a positive pair and a stranger remain for the second."""
    for seed in range(5):
        source = torch.Generator().manual_seed(seed)
        assert disjoint(*seen(B, B_LABELS), generator=source).counts().tuples == 2
        assert disjoint(*seen(A, A_LABELS), generator=source).counts().tuples == 2
        near, far = pair_lists(disjoint_pairs(*seen(B, B_LABELS), generator=source))
        assert len(near) + len(far) == 3
        assert abs(len(near) - len(far)) == 1


def test_the_order_is_drawn():
    found = {
        tuple(triplet_list(disjoint(*seen(B, B_LABELS), generator=torch.Generator().manual_seed(s)))) for s in range(9)
    }
    assert len(found) > 4
