"""Every form of every loss gives on the device what it gives on the CPU."""

from __future__ import annotations

import pytest
import torch

from similis.objective.context import Context, Tiling, dense, tiles, use_context
from tests.accelerator.equality import assert_same, batch, make, step
from tests.proof import shaped_forms

FORMS = shaped_forms()
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


@pytest.mark.parametrize("tiling", ["auto", Tiling(512, 512)], ids=["auto", "tiles"])
@pytest.mark.parametrize(("entry", "form"), FORMS)
def test_large_batches_take_positives_by_list(device, monkeypatch, entry, form, tiling):
    """On a device large comparisons go another way, where sums have another order."""
    monkeypatch.setattr("similis.objective.backends.listed_positives.LEAST", 2000)
    x, labels = batch(300, classes=60)
    with dense():
        want = step(make(entry, form, num_classes=60), x, labels, torch.device("cpu"))
    with use_context(Context(tiling=tiling)):
        got = step(make(entry, form, num_classes=60), x, labels, device)
    for name, value in want.items():
        scale = float(value.abs().max()) or 1.0
        torch.testing.assert_close(
            got[name] / scale, value / scale, atol=2e-5, rtol=0, msg=lambda m, n=name: f"{n}: {m}"
        )
