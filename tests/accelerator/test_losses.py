"""Every form of every loss gives on the device what it gives on the CPU."""

from __future__ import annotations

import pytest
import torch

from similis.objective.context import dense, tiles
from tests.accelerator.equality import assert_same, batch, make, step
from tests.proof import forms

FORMS = [pytest.param(entry, form, id=f"{entry.name}:{form}") for entry, form in forms()]
WAYS = {"dense": dense, "tiles": lambda: tiles(24, 40)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("entry", "form"), FORMS)
def test_equals_the_cpu(device, entry, form, way):
    x, labels = batch(220 if way == "dense" else 90)
    with WAYS[way]():
        want = step(make(entry, form), x, labels, torch.device("cpu"))
        got = step(make(entry, form), x, labels, device)
    assert want["gradient of the embeddings"].abs().sum() > 0
    assert_same(got, want, device)
