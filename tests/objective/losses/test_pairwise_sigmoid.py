"""The pairwise sigmoid loss: oracle in plain loops, two sides, and what SigLIP's code computes."""

import pytest
import torch
from torch.nn import functional

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


def test_equals_the_loss_of_siglip():
    queries, documents = sides(5)
    made = similis.loss("pairwise_sigmoid", temperature=0.2, start_bias=-3.0).double()
    value = made(queries, documents=documents)
    scale, bias = (made.learned[name].detach().clone().requires_grad_() for name in ("log_scale", "bias"))
    logits = scale.exp() * functional.normalize(queries) @ functional.normalize(documents).T + bias
    want = -functional.logsigmoid((2 * torch.eye(7) - 1) * logits).sum() / 7
    got = torch.autograd.grad(value, [queries, documents, *(made.learned[name] for name in ("log_scale", "bias"))])
    truth = torch.autograd.grad(want, [queries, documents, scale, bias])
    assert value.item() == pytest.approx(want.item(), abs=1e-10)
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(got, truth, strict=True))


def test_several_right_documents_of_one_query():
    queries, documents = sides(6)
    labels, names = [0, 0, 1, 2, 2, 3, 9], [0, 1, 1, 2, 2, 3, 3]
    made = similis.loss("pairwise_sigmoid", temperature=1.0, start_bias=-1.0).double()
    value = made(queries, torch.tensor(labels), documents=documents, document_labels=torch.tensor(names))
    q, d = on_sphere(queries), on_sphere(documents)
    rows = [
        sum((softplus((dot(q[i], d[j]) - 1) * (-1 if labels[i] == names[j] else 1)) for j in range(7)), ZERO)
        for i in range(7)
    ]
    assert_equal(value, mean(rows), [queries, documents])
