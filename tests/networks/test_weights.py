"""Weights: drawn from a seed, loaded key by key, hashed."""

import math

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from similis.networks.backbones.bn_inception import SHA256, URL
from similis.networks.embedder import build_embedder
from similis.networks.weights import (
    build_initialised,
    fetch_weights,
    load_weights,
    part_generator,
    read_weights,
    weights_hash,
)
from similis.values import DataError, UserError


def net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))


def load(tensors, droppable=()):
    target = net()
    return target, load_weights(target, tensors, origin="file", droppable=droppable)


def test_a_whole_file_is_loaded_and_reported():
    source = net()
    target, report = load({**source.state_dict(), "fc.weight": torch.zeros(2)}, ("fc",))
    assert weights_hash(target) == weights_hash(source) == report.sha256
    assert report.dropped == ("fc.weight",)
    assert report.origin == "file"


def test_every_disagreement_is_named():
    tensors = dict(net().state_dict())
    del tensors["0.bias"]
    tensors["fc.weight"] = torch.zeros(2)
    tensors["1.weight"] = torch.zeros(5)
    with pytest.raises(
        DataError, match=r"1 missing: 0.bias; 1 unknown: fc.weight; 1 of another shape: 1.weight is \(5,\), not \(4,\)"
    ):
        load(tensors)


def test_a_refused_file_changes_nothing():
    target = net()
    before = weights_hash(target)
    with pytest.raises(DataError):
        load_weights(target, {"0.weight": torch.zeros(4, 3, 3, 3)}, origin="file", droppable=())
    assert weights_hash(target) == before


def test_old_files_without_counters_and_with_a_leading_axis_fit():
    """The published BN-Inception file has batch norms of shape (1, C) and no counters."""
    source = net().state_dict()
    old = {k: v[None] if k.startswith("1.") else v for k, v in source.items() if not k.endswith("tracked")}
    target, _ = load(old)
    assert weights_hash(target) == weights_hash(source)


@pytest.mark.parametrize("wrap", ["plain", "state_dict", "model", "module", "safetensors"])
def test_formats(tmp_path, wrap):
    tensors = net().state_dict()
    path = tmp_path / ("w.safetensors" if wrap == "safetensors" else "w.pth")
    if wrap == "safetensors":
        save_file(tensors, path, metadata={"input": "RGB"})
    elif wrap == "module":
        torch.save({f"module.{k}": v for k, v in tensors.items()}, path)
    else:
        torch.save(tensors if wrap == "plain" else {wrap: tensors, "epoch": 3}, path)
    file = read_weights(path)
    assert weights_hash(file.tensors) == weights_hash(tensors)
    assert file.metadata == ({"input": "RGB"} if wrap == "safetensors" else {})


def test_unusable_files(tmp_path):
    with pytest.raises(UserError, match=r"there is no weights file .*give the path"):
        read_weights(tmp_path / "absent.pth")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UserError, match=r"'notes.txt' is no weights file"):
        read_weights(tmp_path / "notes.txt")
    (tmp_path / "broken.safetensors").write_bytes(b"1234567890")
    with pytest.raises(DataError, match=r"broken.safetensors cannot be read"):
        read_weights(tmp_path / "broken.safetensors")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(DataError, match="something else than named tensors"):
        read_weights(tmp_path / "list.pth")


def test_fetched_by_address_and_checked_by_the_hash_in_its_name(tmp_path, monkeypatch):
    import hashlib

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "cache"))
    torch.save({"a": torch.ones(2)}, tmp_path / "made.pth")
    content = (tmp_path / "made.pth").read_bytes()
    good = tmp_path / f"net-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    good.write_bytes(content)
    bad = tmp_path / "net-00000000.pth"
    bad.write_bytes(content)
    assert torch.equal(fetch_weights(good.as_uri())["a"], torch.ones(2))
    with pytest.raises(DataError, match=r"could not be fetched .*weights=PATH"):
        fetch_weights(bad.as_uri())
    with pytest.raises(DataError, match="could not be fetched"):
        fetch_weights((tmp_path / "net-11111111.pth").as_uri())
    whole = hashlib.sha256(good.read_bytes()).hexdigest()
    assert torch.equal(fetch_weights(good.as_uri(), whole)["a"], torch.ones(2))
    with pytest.raises(DataError, match=f"fetch the file with the SHA-256 {whole[:-1]}0"):
        fetch_weights(good.as_uri(), whole[:-1] + "0")
    assert SHA256.startswith(URL.rpartition("-")[2].partition(".")[0])


def test_the_hash_sees_values_names_types_and_shapes_but_no_layout():
    x = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    base = weights_hash({"x": x})
    assert weights_hash({"x": x.to(memory_format=torch.channels_last)}) == base
    changed = x.clone()
    changed[1, 2, 3, 3] += 1e-6
    others = [{"x": changed}, {"y": x}, {"x": x.double()}, {"x": x.reshape(2, 3, 16)}, {"x": x, "y": x}]
    assert len({base, *map(weights_hash, others)}) == 6
    assert weights_hash({"x": x.bfloat16()}) != weights_hash({"x": x.half()})


def test_a_backbone_tells_where_its_weights_came_from(tmp_path):
    first = build_embedder(backbone="small_conv", dim=4, seed=1)
    assert first.weights_hash is None
    path = str(tmp_path / "small.safetensors")
    save_file(first.backbone.state_dict(), path)
    second = build_embedder(backbone="small_conv", dim=4, seed=2, weights=path)
    assert second.weights_hash == weights_hash(first.backbone)
    assert second.backbone.loaded.origin == path


OURS = ["small_conv", "googlenet", "bn_inception"]


@pytest.mark.parametrize("backbone", [*OURS, "test_resnet"])
def test_the_seed_alone_decides(backbone):
    torch.manual_seed(1)
    first = build_embedder(backbone=backbone, dim=8, seed=3)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again = build_embedder(backbone=backbone, dim=8, seed=3)
    other = build_embedder(backbone=backbone, dim=8, seed=4)
    assert torch.equal(torch.get_rng_state(), state), "the global generator is not touched"
    assert weights_hash(first) == weights_hash(again)
    assert weights_hash(first.backbone) != weights_hash(other.backbone)
    assert weights_hash(first.head) != weights_hash(other.head)


def test_the_head_does_not_depend_on_the_backbone():
    one = build_embedder(backbone="identity", dim=8, seed=1, options={"features": 256})
    two = build_embedder(backbone="small_conv", dim=8, seed=1)
    assert torch.equal(one.head.weight, two.head.weight)


def test_the_head_starts_kaiming_normal_fan_out_without_bias():
    head = build_initialised(lambda: nn.Linear(400, 100), part_generator(0, "head"))
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
        build_initialised(lambda: nn.Sequential(nn.PReLU()), part_generator(0, "backbone"))


def test_positions_of_a_vision_transformer_are_resized_for_another_size(tmp_path):
    timm = pytest.importorskip("timm")
    net = timm.create_model("test_vit", num_classes=0)
    file = tmp_path / "vit.safetensors"
    save_file(net.state_dict(), file)
    same, small = (
        build_embedder(backbone="test_vit", weights=str(file), dim=0, image_size=size).backbone.net
        for size in (160, 96)
    )
    assert torch.equal(same.pos_embed, net.pos_embed)
    assert small.pos_embed.shape[1] == 1 + 6 * 6
    assert torch.equal(small.pos_embed[:, :1], net.pos_embed[:, :1]), "the class token has no place"
    want = timm.layers.resample_abs_pos_embed(net.pos_embed, [6, 6], num_prefix_tokens=1)
    assert torch.equal(small.pos_embed, want)
    assert small(torch.zeros(1, 3, 96, 96)).isfinite().all()
