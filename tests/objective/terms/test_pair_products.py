"""Products of listed pairs: the same numbers as gathered vectors give, for values and derivatives of any order."""

import pytest
import torch

from similis.objective.comparison.compare import compare
from similis.objective.context import dense, tiles
from similis.objective.terms import pair_products as module
from similis.objective.terms.pair_products import pair_products
from tests.batches import random_batch

ROWS, COLUMNS, PAIRS, DIM = 7, 9, 40, 5
WAYS = {"matrix": 10**9, "chunks": 0}  # entries of the matrix that are allowed for each pair


@pytest.fixture(params=list(WAYS))
def way(request, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", WAYS[request.param])
    monkeypatch.setattr(module, "CHUNK", 12 * DIM)  # twelve pairs at a time, so that there are several chunks
    return request.param


def case():
    generator = torch.Generator().manual_seed(0)
    rows, columns = (torch.randn(n, DIM, generator=generator, dtype=torch.float64) for n in (ROWS, COLUMNS))
    first, second = (torch.randint(n, (PAIRS,), generator=generator) for n in (ROWS, COLUMNS))
    return rows, columns, first, second


def gathered(rows, columns, first, second):
    return (rows[first] * columns[second]).sum(-1)


def test_a_chunk_holds_some_of_the_pairs(way):
    rows, _, first, second = case()
    assert [len(i) for i, _ in module.split_pairs(rows, first, second)] == [12, 12, 12, 4]


def test_values_and_gradients_are_those_of_gathered_vectors(way):
    found = []
    for make in (pair_products, gathered):
        rows, columns, first, second = case()
        rows.requires_grad_()
        columns.requires_grad_()
        value = make(rows, columns, first, second)
        found.append([value, *torch.autograd.grad(value.sin().sum(), (rows, columns))])
    for got, want in zip(*found, strict=True):
        assert torch.allclose(got, want, rtol=0, atol=1e-12)


def test_second_derivatives(way):
    rows, columns, first, second = case()
    inputs = (rows.requires_grad_(), columns.requires_grad_())
    assert torch.autograd.gradgradcheck(lambda a, b: pair_products(a, b, first, second).sin(), inputs)


def test_rows_that_are_the_columns_get_both_gradients(way):
    rows, _, first, second = case()
    rows.requires_grad_()
    second = second % ROWS
    got = torch.autograd.grad(pair_products(rows, rows, first, second).sin().sum(), rows)[0]
    want = torch.autograd.grad(gathered(rows, rows, first, second).sin().sum(), rows)[0]
    assert torch.allclose(got, want, rtol=0, atol=1e-12)


def test_vectors_without_a_gradient_get_none():
    rows, columns, first, second = case()
    value = module.PairProducts.apply(rows.requires_grad_(), columns, first, second).sum()
    assert torch.autograd.grad(value, rows)[0].shape == rows.shape


def test_function_transforms(way):
    rows, columns, first, second = case()
    many = torch.stack([rows, rows.flip(0), 2 * rows])

    def value(make, each):
        return make(each, columns, first, second).sin().sum()

    got = torch.func.vmap(torch.func.grad(lambda each: value(pair_products, each)))(many)
    want = torch.stack([torch.func.grad(lambda each: value(gathered, each))(each) for each in many])
    assert torch.allclose(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("context", [dense, lambda: tiles(4, 4)], ids=["dense", "tiles"])
@pytest.mark.parametrize("sphere", [True, False])
def test_many_pairs_of_a_comparison_are_as_few_of_them(sphere, context):
    x, labels = random_batch(0)
    index = torch.arange(11).expand(11, 11)
    with context():
        p = compare(x, labels, sphere=sphere)
        many, each = p.at(index), [p.at(index[:, i]) for i in range(11)]
        assert torch.allclose(many.d, torch.stack([one.d for one in each], 1), rtol=0, atol=1e-12)
        first, second = index.flatten(), index.T.flatten()
        few = torch.cat([p.between(first[i::11], second[i::11]) for i in range(11)])
        assert torch.allclose(p.between(first, second).view(11, 11).T.flatten(), few, rtol=0, atol=1e-12)
