"""Memory, nested sizes and guidance around every loss that takes them."""

from __future__ import annotations

import io

import pytest
import torch

from similis.objective.context import dense, tiles
from similis.objective.wrappers.guided import Guided
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.registry import losses
from tests.accelerator.equality import CLASSES, DIM, assert_same, batch, make, step
from tests.contracts.contracts import exemption
from tests.proof import shaped_forms

CPU = torch.device("cpu")
REMEMBERING = [case for case in shaped_forms() if case.values[0].memory and exemption(*case.values, "memory") is None]


def remember(made, device):
    """Three steps with some images that come again; the results of the last."""
    for seed in range(3):
        x, labels = batch(40, seed)
        found = step(made, x, labels, device, image_ids=(torch.arange(40) * (seed + 1)) % 70)
    return found


@pytest.mark.parametrize("way", [dense, lambda: tiles(24, 40)], ids=["dense", "tiles"])
@pytest.mark.parametrize(("entry", "form"), REMEMBERING)
def test_memory(device, entry, form, way):
    with way():
        want, got = (remember(CrossBatchMemory(make(entry, form), size=64, dim=DIM), where) for where in (CPU, device))
    assert_same(got, want, device)


def test_memory_takes_ids_of_the_host_and_its_state_from_a_file(device):
    x, labels = batch(40)
    made = CrossBatchMemory(make(losses.get("supcon")), size=64, dim=DIM).to(device)
    made(x.to(device), labels.to(device), image_ids=torch.arange(40))
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    other = CrossBatchMemory(make(losses.get("supcon")), size=64, dim=DIM).to(device)
    other.load_state_dict(torch.load(file, map_location="cpu"))
    assert_same(remember(other, device), remember(made, device), device)


@pytest.mark.parametrize("name", ["supcon", "proxy_anchor", "soft_triple", "triplet"])
def test_nested(device, name):
    x, labels = batch(60)
    want, got = (step(Nested(make(losses.get(name)), (4, DIM)), x, labels, where) for where in (CPU, device))
    assert_same(got, want, device)


def test_guided(device):
    x, labels = batch(60)
    likeness = torch.rand(CLASSES, CLASSES, generator=torch.Generator().manual_seed(0))

    def both():
        return Guided(make(losses.get("multi_similarity")), likeness, weight=7.5)

    assert_same(step(both(), x, labels, device), step(both(), x, labels, CPU), device)


def test_class_ids_are_found_on_the_device(device):
    x, labels = batch(60)
    ids = torch.arange(CLASSES) * 7 + 2**40

    def made():
        return make(losses.get("proxy_anchor"), class_ids=ids.tolist(), num_classes=None)

    assert_same(step(made(), x, ids[labels], device), step(made(), x, ids[labels], CPU), device)
    with pytest.raises(ValueError, match=r"labels \[3\] are not among"):
        made().to(device)(x[:1].to(device), torch.tensor([3], device=device))
