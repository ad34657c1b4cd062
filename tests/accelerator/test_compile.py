"""Every form compiles to one graph on the device, which nobody waits for."""

from __future__ import annotations

import pytest
import torch

from similis.registry import losses
from tests.accelerator.emulator import NAME
from tests.accelerator.equality import CLASSES, batch, make, step
from tests.proof import forms

pytestmark = pytest.mark.usefixtures("fresh_compiler")
QUICK = {"supcon", "proxy_anchor"}
FORMS = [
    pytest.param(entry, form, id=f"{entry.name}:{form}", marks=[] if entry.name in QUICK else [pytest.mark.slow])
    for entry, form in forms()
]


def compiled(made, device):
    made.compile(fullgraph=True, backend="aot_eager" if device.type == NAME else "inductor")
    return made


@pytest.mark.parametrize(("entry", "form"), FORMS)
def test_one_graph_without_waits(device, count, entry, form):
    x, labels = batch(40)
    want = step(make(entry, form), x, labels, torch.device("cpu"))
    fast = compiled(make(entry, form).to(device), device)
    got = step(fast, x, labels, device)
    for name, value in want.items():
        scale = float(value.abs().max()) or 1.0
        torch.testing.assert_close(got[name] / scale, value / scale, atol=2e-5, rtol=0)
    rows, labels = x.to(device).requires_grad_(), labels.to(device)
    with count() as counts:
        fast(rows, labels).backward()
    assert counts.waits == 0, str(counts)


def test_a_label_without_a_class_makes_the_loss_nan(device, count):
    x, labels = (part.to(device) for part in batch(40))
    ids = [3 * i for i in range(CLASSES)]
    fast = compiled(make(losses.get("arcface"), class_ids=ids, num_classes=None).to(device), device)
    assert fast(x, 3 * labels).isfinite().item()
    assert fast(x, 3 * labels + 1).isnan().item()
