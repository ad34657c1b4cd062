"""Products of listed pairs: the same numbers as gathered vectors give, for values and derivatives of any order."""

from functools import cache
from itertools import product

import pytest
import torch

from similis.objective.comparison.compare import compare
from similis.objective.context import dense, tiles
from similis.objective.loss import loss
from similis.objective.references import Block, batch_references
from similis.objective.terms import pair_products as module
from similis.objective.terms.pair_products import pair_products
from similis.registry import losses
from similis.values import Pairs, Triplets
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


def test_a_compiled_graph_has_the_same_values():
    torch._dynamo.reset()
    given = case()
    assert torch.allclose(torch.compile(pair_products, fullgraph=True, backend="eager")(*given), gathered(*given))


@cache
def every_tuple(kind, columns):
    """All tuples of a batch, each twice; with 22 columns, a memory of the same labels follows the batch."""
    labels = random_batch(0)[1]
    wide = labels.repeat(columns // len(labels))
    pairs = [(a, c) for a, c in product(range(len(labels)), range(columns)) if a != c]
    near = [(a, c) for a, c in pairs if labels[a] == wide[c]] * 2
    far = [(a, c) for a, c in pairs if labels[a] != wide[c]] * 2
    if kind == "pairs":
        return Pairs(*torch.tensor(near).T, *torch.tensor(far).T)
    return Triplets(*torch.tensor([(a, p, n) for a, p in near for b, n in far if a == b]).T)


MINED = [(entry, form) for entry in losses if entry.accepts for form in entry.forms]


@pytest.mark.parametrize("context", [dense, lambda: tiles(4, 4)], ids=["dense", "tiles"])
@pytest.mark.parametrize("memory", [False, True], ids=["batch", "memory"])
@pytest.mark.parametrize(("entry", "form"), MINED, ids=[f"{entry.name}:{form}" for entry, form in MINED])
def test_losses_over_tuples_do_not_depend_on_the_way(entry, form, memory, context, monkeypatch):
    x, labels = random_batch(0)
    found = []
    for entries, few in ((0, False), (10**9, False), (0, True)):
        monkeypatch.setattr(module, "ENTRIES", entries)
        monkeypatch.setattr(module, "CHUNK", 30)
        tuples = every_tuple(entry.accepts, 22 if memory else 11)
        made = loss(entry.name, num_classes=4, dim=5, **entry.forms[form]).double()
        mine = x.clone().requires_grad_()
        old = Block(x.flip(0), labels, own=torch.arange(11), ids=torch.arange(11) + 50) if memory else None
        with context(), monkeypatch.context() as patch:
            if few:  # what the tuples were gathered by before: vectors of every pair
                patch.setattr("similis.objective.terms.pair_products.pair_products", gathered)
                patch.setattr("similis.objective.comparison.vectors.pair_products", gathered)
            value = made(mine, labels, references=batch_references(mine, labels, old), tuples=tuples)
            found.append([value, torch.autograd.grad(value, mine)[0]])
    for got in found[:2]:
        for a, b in zip(got, found[2], strict=True):
            assert torch.allclose(a, b, rtol=0, atol=1e-12)


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
