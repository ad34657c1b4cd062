"""BN-Inception: keys and features of the published port, with the same random weights."""

import importlib.util
from pathlib import Path

import pytest
import torch

from similis.networks.embedder import build_embedder
from similis.networks.weights import load_weights
from similis.values import Preprocessing
from tests.networks.randomly import check_port, images, scramble


def peer():
    package = importlib.util.find_spec("pretrainedmodels")
    if package is None:
        pytest.skip("the peer is not installed; pip install --no-deps pretrainedmodels")
    # Its one file, without the package around it, which wants half a dozen others.
    file = Path(package.origin).parent / "models" / "bninception.py"
    spec = importlib.util.spec_from_file_location("peer_bninception", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return scramble(module.bninception(pretrained=None)).eval()


def ours(source):
    net = build_embedder(backbone="bn_inception", dim=0).backbone.eval()
    report = load_weights(net, source.state_dict(), origin="peer", droppable=("last_linear",))
    assert report.dropped == ("last_linear.bias", "last_linear.weight")
    return net


def test_keys_and_features():
    theirs = peer()
    check_port(ours(theirs), theirs, theirs.features, without="last_linear.")


def test_features_and_gradients_in_training_mode():
    theirs = peer().train()
    net = ours(theirs).train()
    x = images(3, 64)
    one, two = theirs.features(x), net(x)
    assert torch.equal(one, two)
    one.square().mean().backward()
    two.square().mean().backward()
    assert torch.equal(theirs.conv1_7x7_s2.weight.grad, net.conv1_7x7_s2.weight.grad)
    assert torch.equal(theirs.inception_4e_3x3_bn.running_var, net.inception_4e_3x3_bn.running_var)


def test_it_sees_blue_green_red_up_to_255():
    look = build_embedder(backbone="bn_inception", dim=0).preprocessing
    assert look == Preprocessing(
        size=224, resize=256, mean=(104.0, 117.0, 128.0), std=(1.0, 1.0, 1.0), channels="bgr", top=255.0
    )


def test_without_the_peer_the_shape_and_size_still_hold():
    net = build_embedder(backbone="bn_inception", dim=0).backbone.eval()
    assert net(images(1, 96)).shape == (1, 1024, 3, 3)
    assert sum(p.numel() for p in net.parameters()) == 10_270_240
