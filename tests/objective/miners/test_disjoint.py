"""Disjoint tuples: valid, no image twice, and no tuple could be added."""

import pytest
import torch

from similis.objective.miners.disjoint import disjoint, disjoint_pairs
from tests.batches import B_LABELS, B
from tests.objective.miners.plain_sets import pair_lists, random_seen, seen, triplet_list


@pytest.mark.parametrize("memory", [0, 7])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("miner", [disjoint, disjoint_pairs])
def test_tuples_are_disjoint_and_no_other_fits(miner, seed, memory):
    s, positive, negative = random_seen(seed, memory)
    used = torch.cat(miner(s, positive, negative, generator=torch.Generator().manual_seed(seed))).tolist()
    assert len(used) == len(set(used))
    free = [i for i in range(s.shape[1]) if i not in used]
    fits = all if miner is disjoint else any  # a triplet wants a positive and a negative, a pair one of them
    for a in (i for i in free if i < len(s)):
        assert not fits(mask[a, free].any() for mask in (positive, negative))


def test_pairs_of_both_kinds_take_turns():
    """Two classes of six images could as well make six positive pairs."""
    s, positive, negative = seen(torch.eye(12), torch.arange(12) // 6)
    for seed in range(5):
        near, far = pair_lists(disjoint_pairs(s, positive, negative, generator=torch.Generator().manual_seed(seed)))
        assert (len(near), len(far)) in {(3, 3), (4, 2)}


def test_the_order_is_drawn():
    found = {
        tuple(triplet_list(disjoint(*seen(B, B_LABELS), generator=torch.Generator().manual_seed(s)))) for s in range(9)
    }
    assert len(found) > 4
