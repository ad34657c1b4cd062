"""The pairwise sigmoid loss: oracle in plain loops, and its start."""

import pytest

import similis
from tests.plain import ZERO, dot, mean, negatives, on_sphere, positives, softplus


def oracle(x, labels, learned, options):
    x, scale, bias = on_sphere(x), learned["log_scale"].exp(), learned["bias"]
    rows = []
    for i in range(len(x)):
        near = [softplus(-(scale * dot(x[i], x[j]) + bias)) for j in positives(i, labels)]
        rows.append(sum([*near, *(softplus(scale * dot(x[i], x[k]) + bias) for k in negatives(i, labels))], ZERO))
    return mean(rows)


ORACLES = {"default": oracle}


def test_starts_as_published():
    made = similis.loss("pairwise_sigmoid")
    assert made.learned["log_scale"].exp().item() == pytest.approx(10.0)
    assert made.learned["bias"].item() == -10.0
