"""Multi-similarity loss: oracle with mining and direction, worked numbers, listed pairs."""

import math

import pytest
import torch

from similis.objective.losses.multi_similarity import multi_similarity
from similis.objective.references import Block, References
from similis.values import Pairs
from tests.batches import A_LABELS, B_LABELS, A, B
from tests.plain import ZERO, angle, dot, lse1, mean, negatives, number, on_sphere, positives
from tests.proof import Peer, peer_of


def oracle(x, labels, learned, options):
    x = on_sphere(x)
    alpha, beta, base, slack = (options[k] for k in ("alpha", "beta", "base_cos", "epsilon_cos"))
    values = []
    for i in range(len(x)):
        near = {j: dot(x[i], x[j]) for j in positives(i, labels)}
        far = {k: dot(x[i], x[k]) for k in negatives(i, labels)}
        hardest = min(near, key=lambda j: number(near[j])) if near else None
        if options["mined"]:
            low = min((number(s) for s in near.values()), default=math.inf)
            high = max((number(s) for s in far.values()), default=-math.inf)
            near = {j: s for j, s in near.items() if number(s) < high + slack}
            far = {k: s for k, s in far.items() if number(s) > low - slack}
        push = []
        for k, s in far.items():
            turn = ZERO if hardest is None else angle(x[i], x[hardest], x[k])
            push.append(beta * (s - base - options["direction"] * turn))
        values.append(lse1([-alpha * (s - base) for s in near.values()]) / alpha + lse1(push) / beta)
    return mean(values)


ORACLES = dict.fromkeys(["default", "unmined", "direction"], oracle)


def peer(x, labels, learned):
    from pytorch_metric_learning import losses, miners

    return losses.MultiSimilarityLoss()(x, labels, miners.MultiSimilarityMiner(epsilon=0.1)(x, labels))


PEERS = {
    "default": Peer("MultiSimilarityLoss + MultiSimilarityMiner", peer),
    "unmined": Peer("MultiSimilarityLoss", peer_of("MultiSimilarityLoss")),
}
TUNED = {"alpha": 18.0, "beta": 76.0, "base_cos": 0.8, "epsilon_cos": 0.4}


WORKED = [
    ((A, A_LABELS), {}, 0.05854715),
    ((A, A_LABELS), {"mined": False}, 0.27521647),
    ((A, A_LABELS), TUNED, 0.09616342),
    ((A, A_LABELS), {"base_cos": 1.0}, 0.09900167),
    ((B, B_LABELS), {}, 0.91289839),
    ((B, B_LABELS), {"mined": False}, 0.95150774),
    ((B, B_LABELS), TUNED, 0.75358171),
    ((B, B_LABELS), {"base_cos": 1.0}, 1.07535797),
    ((B, B_LABELS), {"direction": 0.3}, 0.78968719),
]


MINED_B = [([2], [3]), ([2], [3]), ([0, 1], [3, 4]), ([4, 5], [0, 1, 2]), ([3, 5], [2]), ([3], [2])]


def as_pairs(sets):
    near = torch.tensor([(i, j) for i, (own, _) in enumerate(sets) for j in own])
    far = torch.tensor([(i, k) for i, (_, other) in enumerate(sets) for k in other])
    return Pairs(*near.T, *far.T)


def test_the_mined_sets_of_the_worked_example_listed_as_pairs():
    listed = multi_similarity(B, B_LABELS, tuples=as_pairs(MINED_B))
    assert float(listed) == pytest.approx(0.91289839, abs=1e-6)
    turned = multi_similarity(B, B_LABELS, tuples=as_pairs(MINED_B), direction=0.3)
    assert float(turned) == pytest.approx(0.78968719, abs=1e-6)
    one = multi_similarity(A, A_LABELS, tuples=as_pairs([([], [])] * 3 + [([2], [4])]))
    assert float(one) == pytest.approx(0.05854715, abs=1e-6)


def test_listed_pairs_may_lie_in_a_memory():
    refs = References((Block(B[:3], B_LABELS[:3]), Block(B[3:], B_LABELS[3:])))
    value = multi_similarity(B, B_LABELS, references=refs, tuples=as_pairs(MINED_B))
    assert float(value) == pytest.approx(0.91289839, abs=1e-6)
