"""Stores: what is read, in which order, and where the gradient of all readers goes."""

from __future__ import annotations

import pytest
import torch

from benchmarks.rounds import peak_memory
from similis.objective import store as module
from similis.objective.module import loss
from similis.objective.store import Owned, Store
from similis.sphere import unit


@pytest.fixture
def vectors():
    return torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


ORDER = torch.tensor([3, 0, 6, 1, 5, 2, 4])


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("sphere", [True, False])
def test_tiles_rows_and_squares(vectors, sphere, kept, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 2**20 if kept else 0)
    store = Store(vectors, sphere, ORDER)
    plain = unit(vectors) if sphere else vectors
    assert torch.allclose(store.tile(2, 5), plain[ORDER[2:5]], atol=1e-15)
    assert torch.allclose(store.rows(torch.tensor([[4, 0], [1, 1]])), plain[torch.tensor([[4, 0], [1, 1]])], atol=1e-15)
    assert torch.allclose(store.squares, plain[ORDER].square().sum(1), atol=1e-15)
    assert len(store) == 7
    assert not store.wants_gradient


@pytest.mark.parametrize("order", [None, ORDER])
@pytest.mark.parametrize("sphere", [True, False])
def test_all_readers_add_up_to_one_gradient(vectors, sphere, order, monkeypatch):
    """Single rows, values of vectors for themselves: as if autograd had seen plain indexing."""
    monkeypatch.setattr(module, "CHUNK", 6)  # two vectors at a time
    index = torch.tensor([2, 2, 5])
    with torch.no_grad():
        vectors[1] = 0.0  # a vector of zeros stays finite
    mine = vectors.clone().requires_grad_()
    store = Store(mine, sphere, order)
    places = torch.arange(7) if order is None else order
    weights = torch.arange(1.0, 8.0, dtype=torch.float64)
    value = store.rows(index).sin().sum() + (Owned.apply(store.token, store, cubes) * weights[places]).sum()
    value.backward()
    theirs = vectors.clone().requires_grad_()
    plain = unit(theirs) if sphere else theirs
    truth = plain[index].sin().sum() + (cubes(plain) * weights).sum()
    truth.backward()
    assert value.item() == pytest.approx(truth.item(), abs=1e-12)
    assert torch.allclose(mine.grad, theirs.grad, atol=1e-12)


def cubes(vectors):
    return vectors.pow(3).sum(-1)


def test_half_precision_is_widened_and_the_gradient_narrowed(vectors):
    half = vectors.bfloat16().requires_grad_()
    store = Store(half, True)
    assert store.tile(0, 2).dtype == torch.float32
    store.rows(torch.arange(7)).sum().backward()
    assert half.grad.dtype == torch.bfloat16


def test_a_store_that_nobody_read_gives_zeros(vectors):
    x = vectors.requires_grad_()
    (Store(x, True).token * 2).backward()
    assert x.grad.abs().sum() == 0


def step(classes, name):
    """Forward and backward over many classes, for a fresh process."""
    torch.set_num_threads(1)
    made = loss(name, num_classes=classes, dim=64)
    x, labels = torch.randn(32, 64, requires_grad=True), torch.arange(32)
    loss(name, num_classes=40, dim=64)(x, labels).backward()  # what PyTorch loads on first use

    def work():
        made(x, labels).backward()
        return made

    return work


@pytest.mark.parametrize("name", ["normface", "proxy_anchor"])
def test_the_gradient_of_the_classes_is_held_once(name):
    classes = 400_000
    weights = classes * 64 * 4
    assert weights < peak_memory("tests.objective.test_store:step", classes, name) < 1.95 * weights
