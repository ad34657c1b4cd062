"""Smooth-AP: oracle from the definition, worked numbers, the limit of exact AP, what the peer computes instead."""

import math

import pytest
import torch

from similis.objective.losses.smooth_ap import smooth_ap
from tests.batches import A_LABELS, B_LABELS, A, B, random_batch
from tests.plain import ZERO, dot, mean, negatives, on_sphere, positives
from tests.proof import Peer


def sigmoid(z):
    return 0.5 * (1 + (z / 2).tanh())


def ranks_of_positives(i, x, labels, temperature):
    """Of each positive of row i: its rank among the positives, and the negatives before it."""
    own, other = positives(i, labels), negatives(i, labels)
    for j in own:
        steps = [sigmoid((dot(x[i], row) - dot(x[i], x[j])) / temperature) for row in x]
        yield 1 + sum((steps[q] for q in own if q != j), ZERO), sum((steps[n] for n in other), ZERO)


def oracle(x, labels, learned, options):
    x, temperature = on_sphere(x), options["temperature"]
    values = []
    for i in range(len(x)):
        precisions = [rank / (rank + before) for rank, before in ranks_of_positives(i, x, labels, temperature)]
        if precisions:
            values.append(1 - mean(precisions))
    return mean(values)


ORACLES = {"default": oracle}


def peer(x, labels, learned):
    from pytorch_metric_learning.losses import SmoothAPLoss

    if len(set(labels.bincount(minlength=1).tolist()) - {0}) > 1:
        return x.new_tensor(math.nan)  # it refuses classes of unequal size
    return SmoothAPLoss(temperature=0.01)(x, labels)


PEERS = {
    "default": Peer(
        "SmoothAPLoss",
        peer,
        agrees=False,
        note="refuses classes of unequal size (nan here); keeps the query itself among its positives; takes the "
        "number of samples per class for the number of classes, so that with P classes of K samples it treats "
        "each run of P consecutive rows as a class and never looks at the labels",
    )
}


WORKED = [
    ((A, A_LABELS), {"temperature": 0.01}, 0.00217099),
    ((B, B_LABELS), {"temperature": 0.01}, 0.35287358),
    ((A, A_LABELS), {"temperature": 0.1}, 0.10769985),
    ((B, B_LABELS), {"temperature": 0.1}, 0.34929813),
]


def exact(x, labels):
    """One minus mean AP by sorting."""
    x, labels = torch.nn.functional.normalize(x, dim=1), labels.tolist()
    values = []
    for i in range(len(x)):
        order = sorted((k for k in range(len(x)) if k != i), key=lambda k: -float(x[i] @ x[k]))
        ranks = [r for r, k in enumerate(order, 1) if labels[k] == labels[i]]
        if ranks:
            values.append(1 - sum((h + 1) / r for h, r in enumerate(ranks)) / len(ranks))
    return sum(values) / len(values)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_without_temperature_it_is_exact(seed):
    x, labels = random_batch(seed, duplicates=False)
    assert float(smooth_ap(x, labels, temperature=1e-7)) == pytest.approx(exact(x, labels), abs=1e-9)
