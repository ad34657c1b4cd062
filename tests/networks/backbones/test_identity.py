"""Ready-made vectors: nothing is done to them, a head over them is a linear map."""

import pytest
import torch

from similis.networks.embedder import build_embedder
from similis.values import UserError


def vectors():
    return torch.randn(5, 7, generator=torch.Generator().manual_seed(0))


def test_vectors_pass_through():
    model = build_embedder(backbone="identity", dim=0, normalise=False, options={"features": 7})
    assert torch.equal(model(vectors()), vectors())
    assert model.preprocessing is None
    assert list(model.parameters()) == []


def test_with_a_head_it_is_linear_whatever_the_pooling():
    model = build_embedder(backbone="identity", dim=3, pooling="gem", normalise=False, options={"features": 7})
    assert torch.allclose(model(vectors()), vectors() @ model.head.weight.T, atol=1e-6)
    assert torch.equal(model.cacheable_features(vectors()), vectors())
    assert len(model.head_parameters) == 2
    assert model.backbone_parameters == []


def test_what_it_cannot_use_is_refused():
    model = build_embedder(backbone="identity", dim=3, options={"features": 7})
    with pytest.raises(UserError, match=r"built for vectors \(B, 7\) and got \(2, 6\)"):
        model(torch.zeros(2, 6))
    with pytest.raises(UserError, match="takes neither weights nor an image size"):
        build_embedder(backbone="identity", image_size=32, options={"features": 7})
