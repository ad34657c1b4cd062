"""InfoNCE: oracle in plain loops, both sides, hard negatives, and the scale that CLIP learns."""

import pytest
import torch

import similis
from similis.objective.losses.info_nce import info_nce
from similis.values import UserError
from tests.batches import random_batch
from tests.objective.losses.test_supcon import oracle as supcon_oracle
from tests.plain import dot, lse, mean, on_sphere


def oracle(x, labels, learned, options):
    """A batch against itself: SupCon, with the temperature that is learned."""
    scale = learned["log_scale"].exp() if learned else torch.tensor(1 / options["temperature"], dtype=torch.float64)
    return supcon_oracle(x, labels, learned, {"temperature": 1 / scale})


ORACLES = {"default": oracle, "learned": oracle, "both": oracle}


def one_way(rows, columns, row_labels, column_labels, scale, beside=()):
    """Mean over rows with a positive; ``beside`` holds (vectors, labels, whose) of further negatives."""
    values = []
    for i, row in enumerate(rows):
        logits = [scale * dot(row, column) for column in columns]
        near = [value for value, label in zip(logits, column_labels, strict=True) if label == row_labels[i]]
        more = [scale * dot(row, v) for vectors, allowed in beside for j, v in enumerate(vectors) if allowed(i, j)]
        if near:
            values.append(lse([*logits, *more]) - mean(near))
    return mean(values)


def two_way(queries, documents, labels, names, scale, same_side, negatives=()):
    q, d = on_sphere(queries), on_sphere(documents)
    other = [(q, lambda i, j: labels[i] != labels[j])] if same_side else []
    own = [(d, lambda i, j: names[i] != names[j])] if same_side else []
    to_documents = one_way(q, d, labels, names, scale, [*other, *negatives])
    return to_documents, one_way(d, q, names, labels, scale, own)


def sides(seed, rows=7):
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(rows, 5, generator=generator, dtype=torch.float64) for _ in range(2)]
    return [each.requires_grad_() for each in made]


@pytest.mark.parametrize("direction", ["to_documents", "to_queries", "both"])
@pytest.mark.parametrize("same_side", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_two_sides_are_the_plain_loops(direction, same_side, grouped):
    queries, documents = sides(0)
    labels, names = ([0, 0, 1, 2, 2, 3, 9], [0, 1, 1, 2, 2, 3, 3]) if grouped else (list(range(7)), list(range(7)))
    made = similis.loss("info_nce", preset="paper", direction=direction, same_side=same_side).double()
    scale = made.learned["log_scale"]
    given = {"labels": torch.tensor(labels), "document_labels": torch.tensor(names)} if grouped else {}
    value = made(queries, documents=documents, **given)
    to_documents, to_queries = two_way(queries, documents, labels, names, scale.exp(), same_side)
    want = {"to_documents": to_documents, "to_queries": to_queries, "both": (to_documents + to_queries) / 2}[direction]
    assert_equal(value, want, [queries, documents, scale])


def assert_equal(value, want, tensors):
    assert float(value.detach()) == pytest.approx(float(want.detach()), abs=1e-10)
    got, truth = torch.autograd.grad(value, tensors), torch.autograd.grad(want, tensors)
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(got, truth, strict=True))


@pytest.mark.parametrize("own", [False, True])
def test_hard_negatives_of_all_and_of_each(own):
    queries, documents = sides(2)
    negatives = sides(3, 14)[0]
    given = negatives.view(7, 2, 5) if own else negatives
    allowed = (lambda i, j: j // 2 == i) if own else (lambda i, j: True)
    value = similis.loss("info_nce", temperature=0.2, direction="both")(queries, documents=documents, negatives=given)
    numbers = list(range(7))
    want = two_way(queries, documents, numbers, numbers, 5.0, False, [(on_sphere(negatives), allowed)])
    assert_equal(value, sum(want) / 2, [queries, documents, negatives])


def test_options_are_checked():
    with pytest.raises(UserError, match="unknown direction 'both_ways'; did you mean 'both'"):
        info_nce(*random_batch(0), direction="both_ways")
