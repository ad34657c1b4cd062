"""Circle loss: oracle with constant weights, worked numbers, the closed gradient on similarities."""

from __future__ import annotations

import pytest
import torch

from similis.objective.losses.circle import circle
from similis.objective.terms.references import Block, References
from similis.registry import losses
from tests.batches import A_LABELS, B_LABELS, A, B
from tests.plain import dot, hinge, lse, mean, negatives, on_sphere, positives, softplus
from tests.proof import Peer, agreement


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


def peer(x, labels, learned):
    from pytorch_metric_learning.losses import CircleLoss

    return CircleLoss(m=0.4, gamma=80)(x, labels)


PEERS = {"default": Peer("CircleLoss", peer)}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_agrees_with_the_oracle(seed):
    value, gradient = agreement(losses.get("circle"), "default", oracle, seed)
    assert value < 1e-10
    assert gradient < 1e-10


@pytest.mark.parametrize(
    ("x", "labels", "options", "expected"),
    [
        (A, A_LABELS, {}, 3.74763871),
        (B, B_LABELS, {}, 96.61278609),
        (A, A_LABELS, {"margin_cos": 0.25, "scale": 256.0}, 43.47889973),
        (B, B_LABELS, {"margin_cos": 0.25, "scale": 256.0}, 354.47159578),
    ],
)
def test_worked_numbers(x, labels, options, expected):
    assert float(circle(x, labels, **options)) == pytest.approx(expected, abs=1e-6)


def test_peer_agrees_on_b():
    assert float(peer(B, B_LABELS, {})) == pytest.approx(float(circle(B, B_LABELS)), abs=1e-6)


def similarity_gradient(s, labels, **options):
    """dL/dS of one anchor of class 0: its references are the axes, so that s are free coordinates.

    The gradient of the normalised anchor is the tangent part of (dL/dS, 0); the last coordinate,
    which no reference sees, tells what was taken away.
    """
    rest = (1 - s.square().sum()).sqrt()
    x = torch.cat([s, rest[None]])[None].requires_grad_()
    block = Block(torch.eye(len(s), len(s) + 1, dtype=torch.float64), labels)
    circle(x, torch.tensor([0]), references=References((block,)), **options).backward()
    unit = x.detach()[0]
    radial = -x.grad[0, -1] / unit[-1]
    return x.grad[0, :-1] + radial * unit[:-1]


def test_closed_gradient_on_similarities():
    s, labels = torch.tensor([0.5, 0.1, 0.4, -0.6], dtype=torch.float64), torch.tensor([0, 0, 1, 1])
    m, scale = 0.4, 8.0
    weight_p, weight_n = (1 + m - s[:2]).clamp(min=0), (s[2:] + m).clamp(min=0)
    pull, push = -scale * weight_p * (s[:2] - (1 - m)), scale * weight_n * (s[2:] - m)
    outer = torch.sigmoid(pull.logsumexp(0) + push.logsumexp(0))
    want = torch.cat([-outer * scale * weight_p * pull.softmax(0), outer * scale * weight_n * push.softmax(0)])
    assert torch.allclose(similarity_gradient(s, labels, margin_cos=m, scale=scale), want, atol=1e-10)
    assert want[3] == 0  # a negative below -m is left alone


def test_worked_gradient_of_anchor_0_of_b():
    """The worked row belongs to the mean over six anchors; constant references carry it to the anchor."""
    s = (B @ B.T)[0].requires_grad_()
    m, scale = 0.4, 80.0
    pull = -scale * (1 + m - s[1:3].detach()).clamp(min=0) * (s[1:3] - (1 - m))
    push = scale * (s[3:].detach() + m).clamp(min=0) * (s[3:] - m)
    row = torch.autograd.grad(torch.nn.functional.softplus(pull.logsumexp(0) + push.logsumexp(0)) / 6, s)[0]
    assert row.tolist() == pytest.approx([0, 0, -15.21574606, 11.41109999, 0, 0], abs=1e-6)
    x = B.clone().requires_grad_()
    block = Block(B, B_LABELS, torch.arange(6), torch.arange(6))
    got = torch.autograd.grad(circle(x, B_LABELS, references=References((block,))), x)[0][0]
    free = row @ B
    assert torch.allclose(got, free - (free @ B[0]) * B[0], atol=1e-8)


def test_one_pair_of_each_kind_at_the_optimum_is_log_2():
    """Where S_p = 1 - m and S_n = m both exponents are 0."""
    x = torch.tensor([[0.6, 0.4, (1 - 0.52) ** 0.5]], dtype=torch.float64)
    block = Block(torch.eye(2, 3, dtype=torch.float64), torch.tensor([0, 1]))
    value = circle(x, torch.tensor([0]), references=References((block,)), margin_cos=0.4)
    assert float(value) == pytest.approx(0.6931471805599453, abs=1e-12)
