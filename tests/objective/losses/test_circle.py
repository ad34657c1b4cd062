"""Circle loss: oracle with constant weights, worked numbers."""

import pytest
import torch

from similis.objective.losses.circle import circle
from similis.objective.references import Block, References
from tests.batches import A_LABELS, B_LABELS, A, B
from tests.plain import dot, hinge, lse, mean, negatives, on_sphere, positives, softplus
from tests.proof import Peer, peer_of


def oracle(x, labels, learned, options):
    x, m, scale = on_sphere(x), options["margin_cos"], options["scale"]
    values = []
    for i in range(len(x)):
        near = [dot(x[i], x[j]) for j in positives(i, labels)]
        far = [dot(x[i], x[k]) for k in negatives(i, labels)]
        if near and far:
            pull = lse([-scale * hinge(1 + m - s.detach()) * (s - (1 - m)) for s in near])
            push = lse([scale * hinge(s.detach() + m) * (s - m) for s in far])
            values.append(softplus(push + pull))
    return mean(values)


ORACLES = {"default": oracle}


PEERS = {"default": Peer("CircleLoss", peer_of("CircleLoss", m=0.4, gamma=80))}


WORKED = [
    ((A, A_LABELS), {}, 3.74763871),
    ((B, B_LABELS), {}, 96.61278609),
    ((A, A_LABELS), {"margin_cos": 0.25, "scale": 256.0}, 43.47889973),
    ((B, B_LABELS), {"margin_cos": 0.25, "scale": 256.0}, 354.47159578),
]


def test_one_pair_of_each_kind_at_the_optimum_is_log_2():
    """Where S_p = 1 - m and S_n = m both exponents are 0."""
    x = torch.tensor([[0.6, 0.4, (1 - 0.52) ** 0.5]], dtype=torch.float64)
    block = Block(torch.eye(2, 3, dtype=torch.float64), torch.tensor([0, 1]))
    value = circle(x, torch.tensor([0]), references=References((block,)), margin_cos=0.4)
    assert float(value) == pytest.approx(0.6931471805599453, abs=1e-12)
