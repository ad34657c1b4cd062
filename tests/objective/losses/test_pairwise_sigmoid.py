"""The pairwise sigmoid loss: oracle in plain loops, and two sides."""

import pytest
import torch

import similis
from tests.objective.losses.test_info_nce import assert_equal, sides
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


def test_several_right_documents_of_one_query():
    queries, documents = sides(6)
    labels, names = [0, 0, 1, 2, 2, 3, 9], [0, 1, 1, 2, 2, 3, 3]
    made = similis.loss("pairwise_sigmoid", temperature=0.2, start_bias=-3.0).double()
    value = made(queries, torch.tensor(labels), documents=documents, document_labels=torch.tensor(names))
    q, d = on_sphere(queries), on_sphere(documents)
    scale, bias = made.learned["log_scale"], made.learned["bias"]
    rows = []
    for i in range(7):
        logits = [scale.exp() * dot(q[i], d[j]) + bias for j in range(7)]
        rows.append(sum((softplus(-z if labels[i] == names[j] else z) for j, z in enumerate(logits)), ZERO))
    assert_equal(value, mean(rows), [queries, documents, scale, bias])
