"""The gradient of one tile: similarities and squared norms reach the vectors that they were made of."""

import torch

from similis.objective.backends.tiled.reader import GradientBuffer, read_in_tiles
from similis.objective.backends.tiled.schedule import TileRange
from similis.objective.backends.tiled.tile_gradient import add_norm_gradients, add_similarity_gradient, row_weights
from tests.batches import random_batch

X, _ = random_batch(0)
SPAN = TileRange(2, 5, 1, 8, masked=False)


def test_a_tile_adds_where_it_stands():
    rows, columns = X.clone().requires_grad_(), X.flip(0).clone().requires_grad_()
    of_rows, of_columns = (GradientBuffer(read_in_tiles(v, False)) for v in (rows, columns))
    own, other = rows[2:5], columns[1:8]
    weight = torch.randn(3, 7, dtype=X.dtype, generator=torch.Generator().manual_seed(0))
    far = own.square().sum(1)[:, None] + other.square().sum(1) - 2 * own @ other.T
    want = torch.autograd.grad((far * weight).sum(), (rows, columns))
    add_similarity_gradient(SPAN, -2 * weight, (own.detach(), other.detach()), of_rows, of_columns)
    add_norm_gradients(SPAN, [None, weight.sum(1, keepdim=True), weight.sum(0)[None]], of_rows, of_columns)
    assert torch.allclose(of_rows.total(), want[0])
    assert torch.allclose(of_columns.total(), want[1])


def test_what_is_not_trained_gets_nothing():
    add_similarity_gradient(SPAN, torch.ones(3, 7), (X[2:5], X[1:8]), None, None)
    add_norm_gradients(SPAN, [None, torch.ones(3, 1), torch.ones(1, 7)], None, None)


def test_an_empty_set_weighs_nothing_and_a_top_has_no_weight():
    gradients = [torch.ones(2), None, None, torch.full((2,), 3.0)]
    found = row_weights(["lse", "top", "total"], gradients, [torch.tensor([1.0, -torch.inf])])
    assert found[0].peak.tolist() == [1.0, torch.inf]
    assert found[1] == (None, None)
    assert found[2].gradient.tolist() == [3.0, 3.0]
    assert found[2].peak is None
