"""NT-Xent with labels: oracle over ordered positive pairs, worked numbers."""

import pytest

from similis.objective.losses.nt_xent import nt_xent
from tests.batches import A_LABELS, B_LABELS, A, B
from tests.plain import dot, lse, mean, negatives, on_sphere, positives
from tests.proof import Peer


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
