"""Starts depend on the seed and the part alone, and leave the global generator as it was."""

import math

import pytest
import torch
from torch import nn

from similis.model.embedder import build_embedder
from similis.model.weights import build_initialised, generator_of, weights_hash
from similis.values import UserError

OURS = ["small_conv", "googlenet", "bn_inception"]


@pytest.mark.parametrize("backbone", [*OURS, "test_resnet"])
def test_the_seed_alone_decides(backbone):
    torch.manual_seed(1)
    first = build_embedder(backbone=backbone, dim=8, seed=3)
    torch.manual_seed(2)
    again = build_embedder(backbone=backbone, dim=8, seed=3)
    other = build_embedder(backbone=backbone, dim=8, seed=4)
    assert weights_hash(first) == weights_hash(again)
    assert weights_hash(first.backbone) != weights_hash(other.backbone)
    assert weights_hash(first.head) != weights_hash(other.head)


@pytest.mark.parametrize("backbone", ["small_conv", "test_resnet"])
def test_the_global_generator_is_not_touched(backbone):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_embedder(backbone=backbone, dim=8)
    assert torch.equal(torch.rand(3), expected)


def test_the_head_does_not_depend_on_the_backbone():
    one = build_embedder(backbone="identity", dim=8, seed=1, options={"features": 256})
    two = build_embedder(backbone="small_conv", dim=8, seed=1)
    assert torch.equal(one.head.weight, two.head.weight)


def test_the_head_starts_kaiming_normal_fan_out_without_bias():
    head = build_initialised(lambda: nn.Linear(400, 100), generator_of(0, "head"))
    assert float(head.weight.detach().std()) == pytest.approx(math.sqrt(2 / 100), rel=0.02)
    assert float(head.weight.detach().mean()) == pytest.approx(0.0, abs=0.01)
    assert not head.bias.any()


@pytest.mark.parametrize("backbone", OURS)
def test_a_fresh_network_is_whole(backbone):
    """Built without storage: a layer that was forgotten would hold whatever lay in memory."""
    net = build_embedder(backbone=backbone, dim=0).backbone
    for name, value in net.state_dict().items():
        if name.endswith("running_var"):
            assert bool((value == 1).all()), name
        elif name.endswith(("running_mean", "bias", "num_batches_tracked")):
            assert not value.any(), name
        elif value.ndim == 4:
            wanted = math.sqrt(2 / (value.shape[0] * value[0, 0].numel()))
            assert float(value.std()) == pytest.approx(wanted, rel=0.1), name
        else:
            assert bool((value == 1).all()), name


def test_a_layer_without_a_rule_is_refused():
    with pytest.raises(UserError, match="'0' of Sequential has no rule"):
        build_initialised(lambda: nn.Sequential(nn.PReLU()), generator_of(0, "backbone"))
