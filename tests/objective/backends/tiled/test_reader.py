"""Tile readers: what is read, in which order, and where the gradient of all readings goes."""

import pytest
import torch

from benchmarks.rounds import peak_memory
from similis.objective.backends.tiled import reader as module
from similis.objective.backends.tiled.backend import take_rows
from similis.objective.backends.tiled.reader import read_in_tiles
from similis.objective.loss import loss
from similis.sphere import unit


@pytest.fixture
def vectors():
    return torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


ORDER = torch.tensor([3, 0, 6, 1, 5, 2, 4])


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("sphere", [True, False])
def test_tiles_rows_and_squares(vectors, sphere, kept, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 2**20 if kept else 0)
    reader = read_in_tiles(vectors, sphere, ORDER)
    plain = unit(vectors) if sphere else vectors
    assert torch.allclose(reader.tile(2, 5), plain[ORDER[2:5]], atol=1e-15)
    assert torch.allclose(
        take_rows(reader, torch.tensor([[4, 0], [1, 1]])), plain[torch.tensor([[4, 0], [1, 1]])], atol=1e-15
    )
    assert torch.allclose(reader.squares, plain[ORDER].square().sum(1), atol=1e-15)
    assert len(reader) == 7
    assert not reader.trained


def test_readings_that_do_not_matter_hand_the_buffer_on(vectors):
    x = vectors.requires_grad_()
    reader = read_in_tiles(x, False)
    first, unused, last = (take_rows(reader, torch.tensor([row])) for row in (1, 2, 3))
    (first.sum() + 2 * last.sum()).backward()
    assert unused.requires_grad
    assert x.grad.sum(1).tolist() == [0, 3, 0, 6, 0, 0, 0]


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normface", "proxy_anchor"])
def test_the_gradient_of_the_classes_is_held_once(name):
    classes = 400_000
    weights = classes * 64 * 4
    assert weights < peak_memory("tests.objective.backends.tiled.test_reader:step", classes, name) < 1.95 * weights
