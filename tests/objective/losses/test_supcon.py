"""SupCon: oracle from the paper, worked numbers, grades, memory."""

import pytest
import torch

from similis.objective.losses.supcon import supcon
from similis.objective.references import Block, batch_references
from tests.batches import A_LABELS, B_LABELS, A, B, random_batch
from tests.plain import ZERO, dot, lse, mean, on_sphere, positives
from tests.proof import Peer, peer_of


def oracle(x, labels, learned, options, rows=None):
    x, temperature = on_sphere(x), options["temperature"]
    values = []
    for i in rows or range(len(x)):
        near = [dot(x[i], x[j]) / temperature for j in positives(i, labels)]
        if near:
            values.append(lse([dot(x[i], x[k]) / temperature for k in range(len(x)) if k != i]) - mean(near))
    return mean(values)


def graded_oracle(x, relation, temperature):
    """Positives weighted by grade; columns below 0 nowhere."""
    x = on_sphere(x)
    values = []
    for i in range(len(x)):
        known = [k for k in range(len(x)) if k != i and relation[i][k] >= 0]
        near = [k for k in known if relation[i][k] > 0]
        if near:
            pull = sum((relation[i][k] * dot(x[i], x[k]) / temperature for k in near), ZERO)
            values.append(
                lse([dot(x[i], x[k]) / temperature for k in known]) - pull / sum(relation[i][k] for k in near)
            )
    return mean(values)


ORACLES = {"default": oracle}


PEERS = {"default": Peer("SupConLoss", peer_of("SupConLoss", temperature=0.1))}


WORKED = [
    ((A, A_LABELS), {"temperature": 0.1}, 0.16393798),
    ((B, B_LABELS), {"temperature": 0.1}, 4.61471327),
    ((A, A_LABELS), {"temperature": 0.5}, 0.56641642),
    ((B, B_LABELS), {"temperature": 0.5}, 1.64642490),
]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_grades_weight_the_positives(seed):
    x, labels = random_batch(seed)
    generator = torch.Generator().manual_seed(seed)
    grades = torch.rand(len(x), len(x), generator=generator, dtype=torch.float64)
    relation = torch.where(labels[:, None] == labels, grades, 0.0)
    relation[0, 3] = relation[5, 1] = -1.0
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    value, truth = supcon(mine, relation), graded_oracle(theirs, relation.tolist(), 0.1)
    assert value.item() == pytest.approx(truth.item(), abs=1e-10)
    got, want = torch.autograd.grad(value, mine)[0], torch.autograd.grad(truth, theirs)[0]
    assert torch.allclose(got, want, atol=1e-9)


def test_memory_rows_count_like_rows_of_the_batch():
    x, labels = random_batch(2)
    memory = Block(x[6:], labels[6:], own=torch.arange(6), ids=torch.arange(6, 11))
    joined = batch_references(x[:6], labels[:6], memory)
    want = oracle(x, labels.tolist(), {}, {"temperature": 0.1}, rows=range(6))
    assert float(supcon(x[:6], labels[:6], references=joined)) == pytest.approx(float(want), abs=1e-10)
