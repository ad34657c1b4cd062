"""Results of a computation on two devices, and what it means that they are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from similis.objective.loss import loss
from similis.registry import LossEntry
from tests.accelerator.emulator import NAME

CLASSES, DIM = 12, 16


def batch(rows: int, seed: int = 0, dim: int = DIM, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    """Vectors and unsorted labels in float32, the first two rows alike."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, dim, generator=generator)
    x[1] = x[0]
    return x, torch.randint(classes, (rows,), generator=generator)


def make(entry: LossEntry, form: str = "", **more: Any) -> nn.Module:
    """A loss of the registry for the classes of :func:`batch`."""
    return loss(entry.name, **{"num_classes": CLASSES, "dim": DIM, **entry.forms.get(form, {}), **more})


def step(made: nn.Module, x: Tensor, labels: Tensor, device: torch.device, **more: Any) -> dict[str, Tensor]:
    """Value, gradients and state after one step of a loss on that device, back on the host."""
    made = made.to(device)
    mine = x.detach().to(device, copy=True).requires_grad_()
    value = made(mine, labels.to(device), **{k: v.to(device) for k, v in more.items()})
    value.backward()
    found = {"value": value, "gradient of the embeddings": mine.grad}
    found |= {f"gradient of {name}": p.grad for name, p in made.named_parameters() if p.grad is not None}
    found |= {f"buffer {name}": b for name, b in made.named_buffers()}
    return {name: t.detach().cpu() for name, t in found.items()}


def assert_same(got: Any, want: Any, device: torch.device, what: str = "") -> None:
    """Equal bit for bit on the emulated device; on a card, whose kernels add in another order, within 1e-4."""
    if isinstance(want, Tensor):
        got, want = got.cpu(), want.cpu()
        assert got.shape == want.shape, f"{what} has shape {tuple(got.shape)} instead of {tuple(want.shape)}"
        if device.type == NAME:
            apart = (got.double() - want.double()).abs().max() if got.numel() else 0
            assert torch.equal(got.nan_to_num(), want.nan_to_num()), f"{what} differs by {float(apart):.1e}"
        else:
            torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    elif isinstance(want, Mapping):
        assert set(got) == set(want), f"{what} has {sorted(got)} instead of {sorted(want)}"
        for key in want:
            assert_same(got[key], want[key], device, f"{what} {key}".strip())
    elif isinstance(want, Sequence) and not isinstance(want, str):
        for place, pair in enumerate(zip(got, want, strict=True)):
            assert_same(*pair, device, f"{what} {place}".strip())
    else:
        assert got == want, f"{what} is {got} instead of {want}"
