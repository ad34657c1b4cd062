"""What the emulated device promises."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from tests.accelerator.emulator import DEVICES, NAME


@pytest.fixture(autouse=True)
def only_emulated(device):
    if device.type != NAME:
        pytest.skip("about the emulated device")


def kinds(count, work):
    with count() as counts:
        work()
    return counts.kinds


def test_memory_is_counted_freed_and_not_zero(count):
    before = torch.accelerator.memory_allocated()
    with count() as counts:
        x = torch.empty(1000, device=NAME)
        y = x + 1
        assert x.isnan().all().item()
        del x, y
    assert counts.peak == 8000 + 1000 + 1  # the mask of isnan and its answer
    assert torch.accelerator.memory_allocated() == before


@pytest.mark.parametrize(
    "mix",
    [
        lambda a, b: a + b,
        lambda a, b: a @ b,
        lambda a, b: torch.cat([a, b]),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: torch.stack([torch.zeros(()), a.sum()]),
        lambda a, b: a.index_select(0, torch.tensor([0])),
        lambda a, b: a.scatter(1, torch.zeros(3, 1, dtype=torch.long), 1.0),
        lambda a, b: torch.searchsorted(b[0].sort().values, a),
    ],
)
def test_two_devices_are_refused(mix):
    with pytest.raises(RuntimeError, match="same device"):
        mix(torch.randn(3, 3, device=NAME), torch.randn(3, 3))


def test_other_devices_are_refused():
    assert torch.accelerator.device_count() == DEVICES
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device=f"{NAME}:0") + torch.ones(3, device=f"{NAME}:1")
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, device=NAME, generator=torch.Generator())
    with pytest.raises(TypeError, match="host memory"):
        torch.ones(3, device=NAME).numpy()


def test_numbers_and_indices_of_the_host_are_taken():
    a = torch.randn(3, 3, device=NAME)
    assert torch.equal((a * torch.tensor(2.0)).cpu(), a.cpu() * 2)
    assert torch.equal(a[torch.tensor([1])].cpu(), a.cpu()[[1]])


def test_waits(count):
    a, pinned = torch.randn(30, 30, device=NAME), torch.randn(5).pin_memory()
    assert pinned.is_pinned()
    waiting = {
        "value": [lambda: bool(a.sum() > 0), lambda: a.sum().item()],
        "shape of a result": [a.nonzero, lambda: a[a > 0], a.unique, lambda: torch.equal(a, a.clone())],
        "device to host": [a.cpu],
        "host to device": [lambda: torch.tensor([1.0], device=NAME), lambda: pinned.to(NAME)],
    }
    for kind, works in waiting.items():
        for work in works:
            assert kinds(count, work) == {kind: 1}
    free = [
        lambda: (a @ a).softmax(1).sum(),
        lambda: a.masked_fill(a > 0, 0.0),
        lambda: a.clone().__setitem__(a > 0, 0.0),
        lambda: torch.arange(9, device=NAME),
        lambda: pinned.to(NAME, non_blocking=True),
        lambda: pinned[2:].to(NAME, non_blocking=True),
    ]
    for work in free:
        assert kinds(count, work) == {}


def test_a_wait_has_a_line_and_can_be_refused(count):
    a = torch.randn(4, device=NAME)
    with count() as counts:
        a.sum().item()  # this line
    assert [line.split()[0] for line in counts.lines] == [f"tests/accelerator/test_selftest.py:{here() - 1}"]
    with pytest.raises(RuntimeError, match=r"test_selftest.py:\d+ \(value"), count(allow_waits=False):
        a.sum().item()


def here():
    import sys

    return sys._getframe(1).f_lineno


def test_launches_and_traffic(count):
    a = torch.randn(4, device=NAME)
    with count() as counts:
        a + 1
        assert a.view(2, 2).T.shape == (2, 2)  # a view is no launch
    assert counts.launches == 1
    assert counts.traffic == 32


def test_autocast_and_scaler():
    model, x = nn.Linear(4, 4).to(NAME), torch.randn(2, 4, device=NAME)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast(NAME, dtype=dtype):
            assert model(x).dtype == dtype
            assert model(x).softmax(1).dtype == torch.float32
    scaler, optimiser = torch.amp.GradScaler(NAME), torch.optim.SGD(model.parameters(), 0.1)
    scaler.scale(model(x).sum()).backward()
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    scaler.update()


def test_products_are_rounded_where_that_is_allowed():
    a = torch.randn(8, 8, device=NAME)
    exact = a @ a
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert 0 < float((a @ a - exact).abs().max()) < 1e-2
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def test_a_forked_process_is_refused():
    child = os.fork()
    if not child:
        try:
            torch.zeros(1, device=NAME)
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_memory_ends(device):
    from tests.accelerator.emulator import load

    load().set_capacity(torch.accelerator.memory_allocated() + 1000)
    try:
        torch.zeros(200, device=device)
        with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
            torch.zeros(300, device=device)
    finally:
        load().set_capacity(2**34)
