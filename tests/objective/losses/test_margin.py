"""Margin loss: oracle over all triplets, worked numbers, the boundary."""

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.losses.margin import margin
from similis.values import Triplets, UserError
from tests.batches import A_LABELS, B_LABELS, A, B, circle, random_batch
from tests.plain import ZERO, distance, hinge, negatives, number, on_sphere, positives
from tests.proof import Peer


def all_triplets(labels):
    n = len(labels)
    return [(a, p, k) for a in range(n) for p in positives(a, labels) for k in negatives(a, labels)]


def oracle(x, labels, learned, options):
    x = on_sphere(x)
    beta = learned.get("beta", torch.tensor(options["beta"], dtype=torch.float64))
    value, active = ZERO, 0
    for a, p, n in all_triplets(labels):
        edge = beta[labels[a]] if beta.ndim else beta
        near = hinge(options["margin_dist"] + distance(x[a], x[p]) - edge)
        far = hinge(options["margin_dist"] - distance(x[a], x[n]) + edge)
        value = value + near + far + options["nu"] * edge
        active += (number(near) > 0) + (number(far) > 0)
    return value / active if active else value * 0


ORACLES = dict.fromkeys(["default", "per_class", "fixed"], oracle)


def peer(x, labels, learned):
    from pytorch_metric_learning.losses import MarginLoss

    made = MarginLoss(margin=0.2, beta=1.2)
    made.beta = learned.get("beta", torch.tensor(1.2, dtype=x.dtype)).reshape(-1)  # its own 1.2 is a float32
    return made(x, labels)


PEERS = {
    "default": Peer("MarginLoss(learn_beta=True)", peer),
    "per_class": Peer("MarginLoss(learn_beta=True, num_classes=C)", peer),
    "fixed": Peer("MarginLoss", peer),
}


WORKED = [
    ((A, A_LABELS), {}, 0.40034268),
    ((B, B_LABELS), {}, 0.60615792),
    ((A, A_LABELS), {"margin_dist": 0.5}, 0.22240785),
    ((B, B_LABELS), {"margin_dist": 0.5}, 0.57799532),
    ((A, A_LABELS), {"beta": torch.tensor([1.0, 1.2, 1.4], dtype=torch.float64)}, 0.27310709),
]


def listed(labels):
    return Triplets(*torch.tensor(all_triplets(labels.tolist())).T)


@pytest.mark.parametrize("beta", [1.2, torch.tensor([0.9, 1.1, 1.2, 1.3], dtype=torch.float64)])
def test_counting_all_triplets_is_listing_them(beta):
    for seed in range(3):
        x, labels = random_batch(seed)
        counted = margin(x, labels, beta, nu=0.3)
        assert float(counted) == pytest.approx(float(margin(x, labels, beta, nu=0.3, tuples=listed(labels))), abs=1e-12)


def test_nothing_active_is_an_attached_zero_whatever_nu():
    x = circle(0, 0, 180).requires_grad_()
    beta = torch.tensor(1.2, dtype=torch.float64, requires_grad=True)
    value = margin(x, torch.tensor([0, 0, 1]), beta, nu=1.0)
    value.backward()
    assert value.item() == 0
    assert beta.grad.item() == 0
    assert torch.equal(x.grad, torch.zeros_like(x))


def test_the_boundary_is_learned_or_stays_a_number():
    scalar, each = loss("margin", beta=0.9), loss("margin", num_classes=3, per_class=True)
    fixed = loss("margin", beta=0.9, learnable=False)
    assert scalar.learned["beta"].shape == ()
    assert each.learned["beta"].tolist() == pytest.approx([1.2] * 3)
    assert list(fixed.parameters()) == []
    assert float(fixed(B, B_LABELS)) == float(margin(B, B_LABELS, 0.9))
    assert scalar(B, B_LABELS).item() == pytest.approx(float(margin(B, B_LABELS, 0.9)), abs=1e-6)


def test_a_boundary_for_each_class_needs_classes():
    with pytest.raises(UserError, match="num_classes"):
        loss("margin", per_class=True)
    with pytest.raises(UserError, match="classes 0 to 1"):
        margin(A, A_LABELS, torch.ones(2))
    with pytest.raises(UserError, match="relation"):
        margin(A, torch.eye(6), torch.ones(2))
