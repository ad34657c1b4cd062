"""NT-Xent with labels: oracle over ordered positive pairs, worked numbers, identities."""

from __future__ import annotations

import pytest
import torch

from similis.objective.losses.nt_xent import nt_xent
from similis.registry import losses
from tests.batches import A_LABELS, B_LABELS, A, B, random_batch
from tests.plain import dot, lse, mean, negatives, on_sphere, positives
from tests.proof import Peer, agreement


def oracle(x, labels, learned, options):
    x, temperature = on_sphere(x), options["temperature"]
    values = []
    for i in range(len(x)):
        rivals = [dot(x[i], x[k]) / temperature for k in negatives(i, labels)]
        for j in positives(i, labels):
            own = dot(x[i], x[j]) / temperature
            values.append(lse([own, *rivals]) - own)
    return mean(values)


ORACLES = {"default": oracle}


def peer(x, labels, learned):
    from pytorch_metric_learning.losses import NTXentLoss

    return NTXentLoss(temperature=0.1)(x, labels)


PEERS = {"default": Peer("NTXentLoss(temperature=0.1)", peer)}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_agrees_with_the_oracle(seed):
    value, gradient = agreement(losses.get("nt_xent"), "default", oracle, seed)
    assert value < 1e-10
    assert gradient < 1e-10


@pytest.mark.parametrize(
    ("x", "labels", "temperature", "expected"),
    [
        (A, A_LABELS, 0.1, 0.16393798),
        (B, B_LABELS, 0.1, 3.40747190),
        (A, A_LABELS, 0.5, 0.56641642),
        (B, B_LABELS, 0.5, 1.29332602),
    ],
)
def test_worked_numbers(x, labels, temperature, expected):
    assert float(nt_xent(x, labels, temperature=temperature)) == pytest.approx(expected, abs=1e-6)


def test_peer_agrees_on_b():
    assert float(peer(B, B_LABELS, {})) == pytest.approx(float(nt_xent(B, B_LABELS)), abs=1e-9)


def test_a_positive_does_not_feel_its_siblings():
    """Turning one positive of an anchor leaves the anchor's other pairs alone: the loss is a sum over pairs."""
    x, labels = random_batch(0, duplicates=False)
    anchors = x.clone().requires_grad_()
    gradient = torch.autograd.grad(nt_xent(anchors, labels), anchors)[0]
    pairs = [(i, j) for i in range(len(x)) for j in positives(i, labels.tolist())]
    total = torch.zeros_like(x)
    for i, j in pairs:
        one = x.clone().requires_grad_()
        unit = torch.nn.functional.normalize(one, dim=1)
        logits = torch.stack([unit[i] @ unit[k] for k in [j, *negatives(i, labels.tolist())]]) / 0.1
        total += torch.autograd.grad(-torch.log_softmax(logits, 0)[0], one)[0]
    assert torch.allclose(gradient, total / len(pairs), atol=1e-10)


def test_a_lone_class_costs_nothing():
    x = A.clone().requires_grad_()
    value = nt_xent(x, torch.zeros(6, dtype=torch.int64))
    value.backward()
    assert value.item() == 0.0
    assert x.grad.abs().max().item() == 0.0
