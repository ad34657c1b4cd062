"""The embedder: parts, gradients, frozen norms, caches; and what a wrong choice is answered with."""

import copy
import sys

import pytest
import torch
from torch.nn import functional

from similis.networks.backbone import backbones
from similis.networks.embedder import build_embedder
from similis.networks.pooling import POOLINGS
from similis.networks.weights import weights_hash
from similis.values import MissingExtraError, UserError
from tests.networks.randomly import images

FAST = {"backbone": "small_conv", "dim": 8, "image_size": 16}


def train_steps(model, steps=3):
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model.train()
    for step in range(steps):
        loss = model(images(4, 16, seed=step)).square().sub(0.3).square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@pytest.mark.parametrize("dim", [0, 64, 1024])
@pytest.mark.parametrize("pooling", sorted(POOLINGS))
def test_shapes(pooling, dim):
    model = build_embedder(**FAST | {"dim": dim, "pooling": pooling})
    out = model(images(2, 16))
    assert out.shape == (2, dim or 256)
    assert model.dim == (dim or 256)
    assert torch.allclose(out.norm(dim=1), torch.ones(2), atol=1e-6)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("normalise", [False, True])
def test_the_parts_come_in_their_order(layer_norm, normalise):
    model = build_embedder(**FAST, layer_norm=layer_norm, normalise=normalise).eval()
    x = images(3, 16)
    vectors = model.backbone(x)
    vectors = vectors.mean((2, 3)) + vectors.amax((2, 3))
    if layer_norm:
        centred = vectors - vectors.mean(1, keepdim=True)
        vectors = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    vectors = vectors @ model.head.weight.T + model.head.bias
    if normalise:
        vectors = vectors / vectors.norm(dim=1, keepdim=True)
    assert torch.allclose(model(x), vectors, atol=1e-5)


@pytest.mark.parametrize("pooling", sorted(POOLINGS))
@pytest.mark.parametrize("backbone", ["small_conv", "test_resnet", "test_vit", "test_convnext"])
def test_gradients_reach_every_trained_parameter(backbone, pooling):
    model = build_embedder(backbone=backbone, dim=8, pooling=pooling)
    weights = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    (model(images(4, model.preprocessing.size)) * weights).sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert bool(parameter.grad.isfinite().all()), name
    assert bool(model.head.weight.grad.any())
    assert bool(model.backbone_parameters[0].grad.any())


@pytest.mark.parametrize("backbone", ["small_conv", "test_resnet"])
def test_frozen_batch_norm_is_frozen(backbone):
    model = build_embedder(**FAST | {"backbone": backbone, "freeze_batch_norm": True})
    norms = {n for n, m in model.named_modules() if isinstance(m, torch.nn.BatchNorm2d)}
    before = copy.deepcopy(model.state_dict())
    train_steps(model)
    after = model.state_dict()
    assert norms
    for name, value in after.items():
        assert torch.equal(before[name], value) or name.rpartition(".")[0] not in norms, name
    assert not torch.equal(*(state[next(iter(before))] for state in (before, after)))  # the first convolution learns
    assert model.training
    assert not any(m.training for n, m in model.named_modules() if n in norms)


def test_batch_norm_that_is_not_frozen_moves():
    model = build_embedder(**FAST)
    before = copy.deepcopy(model.state_dict())
    train_steps(model)
    moved = [n for n, v in model.state_dict().items() if not torch.equal(before[n], v)]
    assert set(moved) == set(before)


def test_groups_are_disjoint_and_hold_every_trained_parameter():
    model = build_embedder(**FAST | {"pooling": "gem", "freeze_batch_norm": True})
    backbone, head = ({id(p) for p in ps} for ps in (model.backbone_parameters, model.head_parameters))
    assert not backbone & head
    assert backbone | head == {id(p) for p in model.parameters() if p.requires_grad}
    assert len(head) == 3  # the power of gem, weight and bias


@pytest.mark.parametrize("freeze_batch_norm", [True, False])
def test_a_frozen_backbone_stands_still_and_wakes_up_as_it_was(freeze_batch_norm):
    model = build_embedder(**FAST, freeze_batch_norm=freeze_batch_norm)
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    groups = [id(p) for p in model.backbone_parameters]
    model.freeze_backbone()
    assert [id(p) for p in model.backbone_parameters] == groups
    assert {n for n, p in model.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}
    before, head = weights_hash(model.backbone), weights_hash(model.head)
    train_steps(model)
    assert weights_hash(model.backbone) == before
    assert weights_hash(model.head) != head
    assert model.training
    assert not model.features(images(1, 16)).requires_grad
    model.freeze_backbone(False)
    assert {n for n, p in model.named_parameters() if p.requires_grad} == trained
    train_steps(model)
    assert weights_hash(model.backbone) != before


@pytest.mark.parametrize("pooling", sorted(POOLINGS))
def test_cached_features_train_the_head_as_the_whole_model_would(pooling):
    model = build_embedder(**FAST | {"pooling": pooling, "layer_norm": True})
    model.freeze_backbone()
    x = images(3, 16)
    cached = model.cacheable_features(x)
    assert cached.shape == ((3, 256, 2, 2) if pooling == "gem" else (3, 256))
    whole, short = model(x), model.embed_features(cached)
    assert torch.allclose(whole, short, atol=1e-6)
    one = torch.autograd.grad(whole[:, 0].sum(), model.head_parameters)
    two = torch.autograd.grad(short[:, 0].sum(), model.head_parameters)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(one, two, strict=True))


def test_features_of_another_length_are_refused():
    with pytest.raises(UserError, match=r"features have shape \(2, 5\); this model takes \(B, 256\)"):
        build_embedder(**FAST).embed_features(torch.zeros(2, 5))


def test_state_round_trip():
    one, two = (build_embedder(**FAST | {"pooling": "gem", "seed": seed}) for seed in (1, 2))
    train_steps(one)
    two.load_state_dict(one.state_dict())
    assert torch.equal(one.eval()(images(2, 16)), two.eval()(images(2, 16)))
    assert weights_hash(one) == weights_hash(two)


@pytest.mark.parametrize("backbone", ["small_conv", "googlenet", "bn_inception", "test_resnet", "test_vit"])
def test_channels_last_gives_the_same(backbone):
    model = build_embedder(backbone=backbone, dim=8).eval()
    x = images(2, 160 if backbone == "test_vit" else 64)
    plain = model(x)
    model = model.to(memory_format=torch.channels_last)
    assert torch.allclose(model(x.to(memory_format=torch.channels_last)), plain, atol=1e-4)


def test_autocast_returns_unit_vectors_of_full_precision():
    model = build_embedder(**FAST).eval()
    x = images(4, 16)
    with torch.autocast("cpu", torch.bfloat16):
        out = model(x)
    assert out.dtype == torch.float32
    assert torch.allclose(out.norm(dim=1), torch.ones(4), atol=1e-6)
    assert bool((functional.cosine_similarity(out, model(x)) > 0.99).all())


def test_features_of_any_length_become_the_same_unit_vectors():
    """A network that diverges must not look as if it gave zeros."""
    model = build_embedder(**FAST, normalise=True).eval()
    features = torch.rand(3, model.backbone.features, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        near = model.embed_features(features)
        assert near.norm(dim=1).tolist() == pytest.approx([1.0] * 3)
        for power in (-100, 66, 100):
            assert torch.equal(model.embed_features(features * 2.0**power), near)


def test_a_copy_is_independent():
    model = build_embedder(**FAST)
    twin = copy.deepcopy(model)
    before = weights_hash(twin)
    train_steps(model)
    assert weights_hash(twin) == before
    assert {id(p) for p in twin.backbone_parameters} <= {id(p) for p in twin.parameters()}


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"backbone": "smal_conv"}, "unknown backbone 'smal_conv'; did you mean 'small_conv'"),
        ({"backbone": "timm:resnet5O"}, "unknown backbone 'resnet5O'; did you mean 'resnet50'"),
        ({"backbone": "timm"}, "'timm' is a zoo"),
        ({"pooling": "gapgmp"}, r"unknown pooling 'gapgmp'; did you mean 'gap\+gmp'"),
        ({"dim": -1}, "dim is -1; allowed are 1 and more, or 0"),
        ({"image_size": 4}, "image_size is 4; this backbone needs at least 8"),
        ({"options": {"widht": "wide"}}, "unknown option of the backbone small_conv 'widht'; did you mean 'width'"),
        ({"options": {"width": "wider"}}, "unknown width of small_conv 'wider'; did you mean 'wide'"),
        ({"options": {"norm": "bach"}}, "unknown norm of small_conv 'bach'; did you mean 'batch'"),
        ({"backbone": "identity"}, "identity got features=0; give the length"),
        ({"backbone": "test_resnet", "options": {"tokens": "clas"}}, "unknown choice of tokens 'clas'"),
        ({"backbone": "test_resnet", "options": {"tokens": "class"}}, "test_resnet has no class token"),
    ],
)
def test_errors_say_what_is_allowed(choices, message):
    with pytest.raises(UserError, match=message):
        build_embedder(**({"backbone": "small_conv"} | choices))


def test_every_backbone_is_registered_with_its_options():
    assert {entry.name: entry.options for entry in backbones} == {
        "bn_inception": {}, "googlenet": {}, "identity": {"features": 0},
        "small_conv": {"width": "narrow", "depth": 2, "norm": "batch"}, "timm": {"tokens": "patches", "drop_path": 0.0},
    }  # fmt: skip


def test_without_timm_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # what an absent package looks like to import
    with pytest.raises(MissingExtraError, match=r"\.\[vision\]"):
        build_embedder(backbone="timm:resnet18")
    with pytest.raises(UserError, match=r"unknown backbone 'resnet18'.*\.\[vision\]"):
        build_embedder(backbone="resnet18")
    assert build_embedder(backbone="small_conv", dim=4).dim == 4
