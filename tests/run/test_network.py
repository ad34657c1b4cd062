"""The network of a run: another resolution needs no second building, copies are apart, its cost is remembered."""

import pytest
import torch

from similis.run.network import Network
from similis.run.spec import ModelSpec


def network(backbone, **values):
    return Network(ModelSpec(backbone=backbone, weights=None, dim=8, **values), normalise=True, seed=3)


@pytest.mark.parametrize("size", [96, *(pytest.param(size, marks=pytest.mark.slow) for size in (160, 192))])
@pytest.mark.parametrize("name", ["small_conv", "googlenet", "bn_inception", "test_efficientnet", "test_vit"])
def test_a_resized_network_is_the_one_that_is_built_for_the_size(name, size):
    own = network(name)
    weights = own.built.state_dict()
    resized, anew = own.resized(size).built, network(name, image_size=size).built
    assert resized.preprocessing == anew.preprocessing
    assert own.built.preprocessing != anew.preprocessing or size == own.built.preprocessing.size
    if name != "test_vit":  # whose positions are of one size
        assert all(resized.state_dict()[key].data_ptr() == value.data_ptr() for key, value in weights.items())
    assert all(torch.equal(resized.state_dict()[key], value) for key, value in anew.state_dict().items())
    images = torch.rand(2, 3, size, size)
    with torch.no_grad():
        assert torch.equal(resized.eval()(images), anew.eval()(images))


def test_a_copy_is_trained_apart_from_its_network():
    own = network("small_conv", image_size=16)
    before = {key: value.clone() for key, value in own.built.state_dict().items()}
    copy = own.copy(torch.device("cpu"))
    copy(torch.rand(4, 3, 16, 16)).sum().backward()  # batch norm counts, gradients appear
    with torch.no_grad():
        copy.head.weight.zero_()
    assert all(torch.equal(own.built.state_dict()[key], value) for key, value in before.items())
    assert all(p.grad is None for p in own.built.parameters())


def test_the_cost_is_counted_once_for_each_size(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMILIS_CACHE", str(tmp_path))
    counted = [network("small_conv", image_size=size).cost() for size in (16, 32, 16)]
    assert counted[0] == counted[2] != counted[1]
    again = network("small_conv", image_size=16)
    assert again.cost() == counted[0]
    assert "built" not in again.__dict__
    assert network("small_conv", image_size=16, options={"width": "wide"}).cost() != counted[0]
