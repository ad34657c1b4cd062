"""Recall@k surrogate: oracle from the definition, worked numbers, the limit of exact recall."""

import pytest
import torch

from similis.objective.losses.recall_at_k import recall_at_k
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, A, B, random_batch
from tests.objective.losses.test_smooth_ap import ranks_of_positives, sigmoid
from tests.plain import ZERO, mean, on_sphere


def oracle(x, labels, learned, options):
    x, wide, narrow = on_sphere(x), options["rank_temperature"], options["temperature"]
    values = []
    for i in range(len(x)):
        ranks = [rank + before for rank, before in ranks_of_positives(i, x, labels, narrow)]
        for k in options["ks"] if ranks else ():
            values.append(1 - sum((sigmoid((k - r) / wide) for r in ranks), ZERO) / min(k, len(ranks)))
    return mean(values)


ORACLES = {"default": oracle}


WORKED = [
    ((A, A_LABELS), {"ks": (1, 2, 4)}, 0.27248365),
    ((B, B_LABELS), {"ks": (1, 2, 4)}, 0.48825000),
]


@pytest.mark.parametrize("k", [1, 2, 5])
def test_without_temperatures_it_counts_the_positives_within_k(k):
    """Steps between whole ranks: k + 1/2 in place of k would count rank k fully, here it counts one half."""
    x, labels = random_batch(3, duplicates=False)
    unit = torch.nn.functional.normalize(x, dim=1)
    values = []
    for i in range(len(x)):
        order = sorted((z for z in range(len(x)) if z != i), key=lambda z: -float(unit[i] @ unit[z]))
        ranks = [r for r, z in enumerate(order, 1) if labels[z] == labels[i]]
        if ranks:
            found = sum(1.0 if r < k else 0.5 if r == k else 0.0 for r in ranks)
            values.append(1 - found / min(k, len(ranks)))
    got = recall_at_k(x, labels, ks=(k,), rank_temperature=1e-3, temperature=1e-7)
    assert float(got) == pytest.approx(sum(values) / len(values), abs=1e-9)


@pytest.mark.parametrize("ks", [(), (0, 1)])
def test_no_neighbours_are_refused(ks):
    with pytest.raises(UserError, match="ks is"):
        recall_at_k(A, A_LABELS, ks=ks)
