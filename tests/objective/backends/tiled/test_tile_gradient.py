"""The gradient of one tile: what its values weigh."""

import torch

from similis.objective.backends.tiled.tile_gradient import row_weights


def test_an_empty_set_weighs_nothing_and_a_top_has_no_weight():
    gradients = [torch.ones(2), None, None, torch.full((2,), 3.0)]
    found = row_weights(["lse", "top", "total"], gradients, [torch.tensor([1.0, -torch.inf])])
    assert found[0].peak.tolist() == [1.0, torch.inf]
    assert found[1] == (None, None)
    assert found[2].gradient.tolist() == [3.0, 3.0]
    assert found[2].peak is None
