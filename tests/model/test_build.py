"""Choices by name: what is wrong is answered with what is right."""

import sys

import pytest

from similis.model.backbone import backbones
from similis.model.embedder import build_embedder
from similis.values import MissingExtraError, UserError


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"backbone": "smal_conv"}, "unknown backbone 'smal_conv'; did you mean 'small_conv'"),
        ({"backbone": "timm:resnet5O"}, "unknown backbone 'resnet5O'; did you mean 'resnet50'"),
        ({"backbone": "timm"}, "'timm' is a zoo"),
        ({"pooling": "gapgmp"}, r"unknown pooling 'gapgmp'; did you mean 'gap\+gmp'"),
        ({"dim": -1}, "dim is -1; allowed are 1 and more, or 0"),
        ({"image_size": 0}, "image_size is 0; give a number of pixels"),
        ({"image_size": 4}, "image_size is 4; this backbone needs at least 8"),
        ({"options": {"widht": "wide"}}, "unknown option of the backbone small_conv 'widht'; did you mean 'width'"),
        ({"options": {"width": "wider"}}, "unknown width of small_conv 'wider'; did you mean 'wide'"),
        ({"options": {"norm": "bach"}}, "unknown norm of small_conv 'bach'; did you mean 'batch'"),
        ({"weights": "pretrained"}, "small_conv has no published weights"),
        ({"weights": "absent.safetensors"}, "there is no weights file 'absent.safetensors'"),
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
        "bn_inception": {},
        "googlenet": {},
        "identity": {"features": 0},
        "small_conv": {"width": "narrow", "depth": 2, "norm": "batch"},
        "timm": {"tokens": "patches", "drop_path": 0.0},
    }


def test_without_timm_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # what an absent package looks like to import
    with pytest.raises(MissingExtraError, match=r"similis\[vision\]"):
        build_embedder(backbone="timm:resnet18")
    with pytest.raises(UserError, match=r"unknown backbone 'resnet18'.*similis\[vision\]"):
        build_embedder(backbone="resnet18")
    assert build_embedder(backbone="small_conv", dim=4).dim == 4
