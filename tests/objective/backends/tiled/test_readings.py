"""Steps that read single vectors: as if autograd had seen plain indexing."""

import pytest
import torch

from similis.objective.backends.tiled import reader as module
from similis.objective.backends.tiled.backend import take_rows
from similis.objective.backends.tiled.function import run_tiled
from similis.objective.backends.tiled.reader import read_in_tiles
from similis.objective.backends.tiled.readings import ValuesOfVectors
from similis.sphere import unit

ORDER = torch.tensor([3, 0, 6, 1, 5, 2, 4])


@pytest.mark.parametrize("order", [None, ORDER])
@pytest.mark.parametrize("sphere", [True, False])
def test_all_readings_add_up_to_one_gradient(sphere, order, monkeypatch):
    """Single rows, values of vectors for themselves: as if autograd had seen plain indexing."""
    monkeypatch.setattr(module, "CHUNK", 6)  # two vectors at a time
    vectors = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    index = torch.tensor([2, 2, 5])
    with torch.no_grad():
        vectors[1] = 0.0  # a vector of zeros stays finite
    mine = vectors.clone().requires_grad_()
    reader = read_in_tiles(mine, sphere, order)
    places = torch.arange(7) if order is None else order
    weights = torch.arange(1.0, 8.0, dtype=torch.float64)
    value = (
        take_rows(reader, index).sin().sum() + (run_tiled(ValuesOfVectors(reader, cubes))[0] * weights[places]).sum()
    )
    value.backward()
    theirs = vectors.clone().requires_grad_()
    plain = unit(theirs) if sphere else theirs
    truth = plain[index].sin().sum() + (cubes(plain) * weights).sum()
    truth.backward()
    assert value.item() == pytest.approx(truth.item(), abs=1e-12)
    assert torch.allclose(mine.grad, theirs.grad, atol=1e-12)


def cubes(vectors):
    return vectors.pow(3).sum(-1)
