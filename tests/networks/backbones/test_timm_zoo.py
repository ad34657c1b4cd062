"""Networks of timm's: layouts become maps, files load key by key, unused parts are left out of training."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from similis.networks.backbones.timm_zoo import Zoo, grid_of, leave_out_unused, with_stated_input
from similis.networks.embedder import build_embedder
from similis.networks.weights import read_weights, weights_hash
from similis.values import DataError, Preprocessing, UserError
from tests.networks.randomly import images

timm = pytest.importorskip("timm", reason="timm comes with the extra vision")


@pytest.mark.parametrize(
    ("name", "shape"),
    [("timm:test_resnet", (1, 96, 5, 5)), ("test_convnext", (1, 64, 5, 5)), ("test_vit", (1, 64, 10, 10)),
     ("test_vit3", (1, 96, 10, 10)), ("test_mambaout", None), ("test_efficientnet", (1, 256, 5, 5))],
)  # fmt: skip
@torch.no_grad()
def test_every_layout_becomes_a_map(name, shape):
    net = build_embedder(backbone=name, dim=0).backbone.eval()
    out = net(images(1, 160))
    assert out.ndim == 4
    assert out.shape[1] == net.features
    assert shape is None or out.shape == shape


@torch.no_grad()
def test_channels_that_come_last_are_brought_forward():
    net = build_embedder(backbone="swin_tiny_patch4_window7_224", dim=0).backbone.eval()
    x = images(1, 224)
    assert torch.equal(net(x).permute(0, 2, 3, 1), net.net.forward_features(x))
    assert net(x).shape == (1, 768, 7, 7)


@torch.no_grad()
def test_tokens_keep_their_places():
    """Patch (row, column) of the image is place (row, column) of the map; the class token is left out."""
    net = build_embedder(backbone="test_vit", dim=0).backbone.eval()
    x = images(1, 160)
    tokens = net.net.forward_features(x)
    assert tokens.shape == (1, 101, 64)
    assert torch.equal(net(x)[0, :, 3, 7], tokens[0, 1 + 3 * 10 + 7])
    alone = build_embedder(backbone="test_vit", dim=0, options={"tokens": "class"}).backbone.eval()
    alone.load_state_dict(net.state_dict())
    assert torch.equal(alone(x)[0, :, 0, 0], tokens[0, 0])


def test_grids_of_images_that_are_not_square():
    patches = torch.arange(12.0).reshape(1, 12, 1)
    assert torch.equal(grid_of(patches, 3 / 4)[0, 0], torch.arange(12.0).reshape(3, 4))
    assert grid_of(torch.zeros(1, 7, 2), 1.0).shape == (1, 2, 1, 7)


def test_preprocessing_is_that_of_timm():
    model = build_embedder(backbone="vit_tiny_patch16_224", dim=0)
    half = (0.5, 0.5, 0.5)
    assert model.preprocessing == Preprocessing(224, 248, half, half, "rgb", 1.0, "bicubic")
    small = build_embedder(backbone="test_resnet", dim=0, image_size=64).preprocessing
    assert (small.size, small.resize, small.mean) == (64, 67, (0.5, 0.5, 0.5))


def test_what_the_map_does_not_depend_on_is_not_trained():
    """ConvNeXt norms behind its own pooling, MobileNet v3 convolves behind it."""
    for name, idle in (("test_convnext", "head.norm"), ("mobilenetv3_small_050", "conv_head")):
        net = build_embedder(backbone=name, dim=0, image_size=64).backbone
        still = {key for key, p in net.net.named_parameters() if not p.requires_grad}
        assert still == {f"{idle}.weight", f"{idle}.bias"}


def test_positions_that_timm_keeps_fixed_stay_fixed():
    class Fixed(torch.nn.Module):
        num_features = 4

        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 2)
            self.position = torch.nn.Parameter(torch.ones(4, 1, 1), requires_grad=False)
            self.idle = torch.nn.Parameter(torch.ones(2))

        def forward_features(self, x):
            return self.conv(x) + self.position

    backbone = Zoo(Fixed(), Preprocessing(size=8), "patches")
    leave_out_unused(backbone, 8)
    assert {name for name, p in backbone.net.named_parameters() if p.requires_grad} == {"conv.weight", "conv.bias"}
    assert backbone.training


def test_a_file_is_loaded_key_by_key(tmp_path):
    source = timm.create_model("test_resnet", num_classes=7)
    path = str(tmp_path / "w.safetensors")
    save_file(source.state_dict(), path, metadata={"input": "RGB, (x*255-127)/128"})
    model = build_embedder(backbone="test_resnet", weights=path, dim=0)
    x = images(2, 96)
    assert torch.equal(model.backbone.eval()(x), source.eval().forward_features(x))
    assert model.backbone.loaded.dropped == ("fc.bias", "fc.weight")
    assert model.weights_hash == weights_hash(model.backbone.net)
    assert model.preprocessing.mean == (127 / 255,) * 3
    assert model.preprocessing.std == (128 / 255,) * 3
    with pytest.raises(DataError, match=r"does not fit this network: \d+ missing"):
        build_embedder(backbone="test_vit", weights=path)


def test_a_file_that_states_nothing_changes_nothing():
    assert {with_stated_input(Preprocessing(), each) for each in ({}, {"input": "anything"})} == {Preprocessing()}


def test_weights_that_do_not_exist_say_what_to_do():
    with pytest.raises(DataError, match=r"could not give the weights of .*weights=PATH"):
        build_embedder(backbone="botnet50ts_256", weights="pretrained")


def test_a_hub_out_of_reach_says_what_to_do(monkeypatch, tmp_path):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(DataError, match=r"could not give the weights of test_resnet .*weights=PATH"):
        build_embedder(backbone="test_resnet", weights="pretrained")


def test_an_unknown_tag_is_answered_with_the_known_ones():
    with pytest.raises(UserError, match=r"Invalid pretrained tag \(no_such_tag\).*Known are: resnet18.a1_in1k"):
        build_embedder(backbone="resnet18.no_such_tag", weights="pretrained")


def test_drop_path_is_passed_on_where_it_is_known():
    net = build_embedder(backbone="test_vit", dim=0, options={"drop_path": 0.5}).backbone.train()
    x = images(1, 160).expand(8, -1, -1, -1)
    assert not torch.equal(net(x)[0], net(x)[1])


@pytest.fixture(scope="module")
def real():
    """The real weights, found by SIMILIS_DATA."""
    path = Path(os.environ.get("SIMILIS_DATA", "")) / "weights" / "tf_efficientnet_lite0_imagenet.safetensors"
    if not os.environ.get("SIMILIS_DATA") or not path.is_file():
        pytest.skip("no real weights: set SIMILIS_DATA to the folder that holds weights/")
    return path


@pytest.mark.photos
def test_real_weights_load_strictly(real):
    model = build_embedder(backbone="tf_efficientnet_lite0", weights=str(real), dim=64, freeze_batch_norm=True)
    assert model.backbone.loaded.dropped == ("classifier.bias", "classifier.weight")
    assert model.backbone.features == 1280
    whole = timm.create_model("tf_efficientnet_lite0")
    whole.load_state_dict(dict(read_weights(real).tensors), strict=True)
    x = images(2, 128)
    assert torch.equal(model.features(x), whole.eval().forward_features(x))
    assert model.preprocessing.mean == (127 / 255,) * 3
    assert (model.preprocessing.size, model.preprocessing.resize) == (224, 256)
    held = {key for key in whole.state_dict() if not key.startswith("classifier.")}
    assert weights_hash({k: v for k, v in read_weights(real).tensors.items() if k in held}) == model.weights_hash


@pytest.mark.parametrize("name", ["test_resnet", "test_vit", "test_convnext", "test_efficientnet", "test_nfnet"])
def test_own_pooling_is_what_timm_gives_without_a_classifier(name):
    model = build_embedder(backbone=name, dim=0, pooling="own", normalise=False).eval()
    x = images(2, model.preprocessing.size)
    whole = model.backbone.net(x)
    assert torch.equal(model(x), whole)
    assert torch.equal(model.embed_features(model.cacheable_features(x)), whole)
    assert model.dim == whole.shape[1]


@pytest.mark.parametrize("name", ["test_vit", "test_convnext", "test_efficientnet"])
def test_every_parameter_is_in_one_layer_and_the_first_is_the_stem(name):
    net = build_embedder(backbone=name, dim=0, pooling="own").backbone
    held = [id(p) for layer in net.layers() for p in layer]
    assert sorted(held) == sorted(id(p) for p in net.parameters())
    assert id(next(p for n, p in net.named_parameters() if "stem" in n or "patch_embed" in n)) in held[:8]
