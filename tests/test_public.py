"""``import similis`` is light; public names arrive on first use."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import similis
from similis.registry import losses, miners


def test_every_public_name_is_there():
    assert {*similis._PUBLIC, *similis._MODULES} == set(similis.__all__) - {"__version__"}
    for name, (module, own) in similis._PUBLIC.items():
        assert getattr(similis, name) is getattr(importlib.import_module(module), own)
        assert name in dir(similis)


def test_losses_are_functions_and_formula_holds_what_they_are_written_with():
    assert similis.losses.triplet is losses.get("triplet").function
    assert "triplet" in dir(similis.losses)
    with pytest.raises(AttributeError, match="there is no loss 'tripplet'; losses: arcface"):
        similis.losses.tripplet  # noqa: B018
    for name in similis.formula.__all__:
        assert getattr(similis.formula, name) is not None


def test_miners_and_losses_by_name():
    assert similis.list_losses("triplet") == ["margin", "triplet"]
    assert set(similis.list_losses()) == {entry.name for entry in losses}
    assert similis.miner("semi_hard") is miners.get("semi_hard").function


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="no attribute 'los'"):
        similis.los  # noqa: B018


def test_public_functions_are_not_shadowed_by_rooms():
    rooms = {path.name for path in Path(similis.__file__).parent.iterdir() if path.is_dir()}
    assert {"data", "cli"} <= rooms
    assert not rooms & set(similis._PUBLIC)


def test_importing_the_package_imports_no_heavy_part():
    heavy = ["torch", "numpy", "timm", "torchvision", "faiss", "ray", "optuna", "matplotlib", "sentence_transformers"]
    code = f"import sys, similis; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


CALL = """
import sys, torch, similis
x, labels = torch.randn(6, 4, requires_grad=True), torch.tensor([0, 0, 1, 1, 2, 2])
proxies = similis.loss("proxy_anchor", num_classes=3, dim=4)
for loss in (proxies, similis.loss("triplet", geometry="euclid")):
    loss(x, labels).backward()
heavy = "torch._dynamo torch._inductor timm torchvision faiss ray optuna matplotlib sentence_transformers PIL"
print([name for name in heavy.split() if name in sys.modules])
"""


def test_losses_need_torch_alone_and_no_compiler():
    done = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
