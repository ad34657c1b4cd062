"""The law that each loss states, time and memory in B and C, against counted work and the largest tensor it makes."""

from __future__ import annotations

import inspect
import re

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.losses import exponent
from similis.objective.context import tiles
from similis.objective.module import loss
from similis.registry import losses

DIM = 16
FORMS = {  # what makes the law visible: sizes that do not grow with C
    "proxy_gml": {"subproxies": 2, "neighbors": 5},
    "subcenter_arcface": {"centers": 2},
    "soft_triple": {"centers": 2},
}


class Counted(TorchDispatchMode):
    """Numbers written and products multiplied; the largest tensor that is neither class vectors nor one value each."""

    def __init__(self, *known: int):
        super().__init__()
        self.work, self.largest, self.known = 0, 0, set(known)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        inputs = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor)]
        old = {t.untyped_storage().data_ptr() for t in inputs}
        if "mm" in func.__name__:
            first, second = inputs[-2:]
            self.work += first.numel() * second.shape[-1]
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in old:
                self.work += t.numel()
                if t.numel() not in self.known:
                    self.largest = max(self.largest, t.numel())
        return out


def degree(law, symbol):
    """The highest power of a symbol in a law such as ``B^2 D + B n``."""
    plain = re.sub(r"\(.*?\)", "", law).split(",")[0]
    powers = re.findall(rf"(?<![A-Za-z]){symbol}(?:\^(\d+))?(?![A-Za-z])", plain)
    return max([0, *(int(power or 1) for power in powers)])


def counted(name, size, classes):
    """Work and largest tensor of a step in tiles of 48 x 48."""
    made = loss(name, num_classes=classes, dim=DIM, **FORMS.get(name, {}))
    x = torch.randn(size, DIM, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.arange(size) // 4 % classes
    depth = max([1, *(p.shape[1] for p in made.parameters() if p.ndim == 3)])
    known = (
        {classes * d * e for d in (1, depth) for e in (1, DIM)} | {classes - 1, classes * depth**2}
        if made.learned
        else set()
    )
    with tiles(48, 48), Counted(*known) as count:
        made(x, labels).backward()
    return count.work, count.largest


BY_CLASS = ("proxy", "classification")


@pytest.mark.parametrize("entry", list(losses), ids=lambda entry: entry.name)
def test_the_law_holds(entry):
    by_class = entry.family in BY_CLASS
    sizes = [64, 128, 256, 1024]  # a 16-fold range
    symbol = "C" if by_class else "B"
    found = [counted(entry.name, 8, n) if by_class else counted(entry.name, n, n // 4) for n in sizes]
    stated = degree(entry.cost.time, symbol)
    slope = exponent(sizes[1:], [work for work, _ in found[1:]])
    assert stated - 0.35 <= slope <= stated + 0.15, f"work grows as {symbol}^{slope:.2f}, stated {entry.cost.time}"
    # beyond the class vectors, their gradient and one value of each class, nothing grows with C
    held = 0 if by_class else degree(entry.cost.memory, symbol)
    growth = exponent(sizes[1:], [largest for _, largest in found[1:]])
    assert growth <= held + 0.15, f"the largest tensor grows as {symbol}^{growth:.2f}, stated {entry.cost.memory}"


@pytest.mark.parametrize("entry", list(losses), ids=lambda entry: entry.name)
def test_the_law_stands_in_the_docstring(entry):
    text = " ".join((inspect.getdoc(entry.function) or "").split())
    law, _, where = entry.cost.time.partition(", ")
    assert f"Cost: time {law}, memory {entry.cost.memory}{', ' + where if where else ''};" in text


def test_the_reading_of_a_law():
    assert degree("B^2 D + B^2 log n (smooth: B^3 n), n positives of B", "B") == 2
    assert degree("C K D", "C") == 1
    assert degree("C K D", "B") == 0
