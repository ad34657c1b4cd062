"""TF32 is allowed: factors of products keep 10 bits, and equal images must still be no distance apart."""

from __future__ import annotations

import pytest
import torch

from similis.objective.context import dense, tiles
from similis.objective.terms.distances import Similarities, rounding_noise
from similis.registry import losses
from tests.accelerator.equality import batch, make, step

CASES = [("contrastive", "euclid"), ("contrastive", "hadsell"), ("triplet", "euclid"), ("margin", "default")]


@pytest.fixture(autouse=True)
def tf32():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def test_the_guard_knows_the_format(device):
    x = torch.zeros(2, device=device)
    assert rounding_noise(x) == 2.0**-10
    assert rounding_noise(x.double()) < 1e-14
    assert rounding_noise(x.cpu()) < 1e-6


def test_equal_rows_are_no_distance_apart(device):
    x = batch(60)[0].to(device)
    s, norms = x @ x.T, x.square().sum(1)
    apart = Similarities(s, norms[:, None] + norms).d.diagonal()
    assert apart.max().item() == 0.0


@pytest.mark.parametrize("way", [dense, lambda: tiles(24, 40)], ids=["dense", "tiles"])
@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_loss_of_duplicates(device, name, form, way):
    x, labels = batch(60, classes=6)
    x = x[torch.arange(60) // 3]  # three copies of each image, of any class
    with way():
        want = step(make(losses.get(name), form), x, labels, torch.device("cpu"))
        got = step(make(losses.get(name), form), x, labels, device)
    assert abs(float(got["value"] / want["value"]) - 1) < 1e-2
