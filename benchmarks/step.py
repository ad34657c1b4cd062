"""A training step of our loop against the same work written by hand: ``python -m benchmarks.step``.

The row ``allocator`` is another question: processor time (user and system) of the same steps in fresh processes, with
and without :func:`similis.training.allocator.keep_freed_memory`.

Both sides take the same batches, already loaded; the same network, loss and optimiser; clip; and write nothing.
What ours adds is the loop itself: rates, seeds, reports. Target: at most 1.05 of the time by hand.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

import similis
from benchmarks.rounds import alternate, arguments, measure_rows, median, median_ratio, take_turns
from similis.networks.embedder import build_embedder
from similis.training.allocator import keep_freed_memory
from similis.training.loop import Progress, Task, train
from similis.training.optimisers import Rates, Schedule, build_optimiser, parameter_groups
from similis.values import Batch

STEPS, CLASSES = 4, 50


class Row(NamedTuple):
    """One case: network, pixels, batch, loss."""

    backbone: str
    size: int
    batch: int
    loss: str


ROWS = {
    "small_conv-32-proxy_anchor": Row("small_conv", 32, 64, "proxy_anchor"),
    "small_conv-32-multi_similarity": Row("small_conv", 32, 64, "multi_similarity"),
    "lite0-96-proxy_anchor": Row("tf_efficientnet_lite0", 96, 50, "proxy_anchor"),
}


def batches(row: Row) -> list[Batch]:
    """Random images with five of each class."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(STEPS):
        images = torch.randn(row.batch, 3, row.size, row.size, generator=generator)
        labels = torch.randperm(CLASSES, generator=generator)[: row.batch // 5 + 1].repeat_interleave(5)[: row.batch]
        made.append(Batch(images.contiguous(memory_format=torch.channels_last), labels, torch.arange(row.batch)))
    return made


def parts(row: Row) -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
    """Network, loss and optimiser, the same for both sides."""
    model = build_embedder(backbone=row.backbone, weights=None, dim=128, freeze_batch_norm=True, image_size=row.size)
    model.to(memory_format=torch.channels_last)
    loss = similis.loss(row.loss, num_classes=CLASSES, dim=128)
    rates = Rates("adamw", 1e-4, loss_multiplier=loss.lr_multiplier)
    return model, loss, build_optimiser(parameter_groups(model, model.head_parameters, loss, rates), rates)


def ours(row: Row, given: list[Batch]) -> Callable[[], object]:
    """The loop of the package over the batches."""
    model, loss, optimiser = parts(row)
    task = Task(model, loss, optimiser, Schedule("constant", 0, 1, 1.0), STEPS, STEPS, seed=0, clip_value=10.0)

    def once(epoch: int, start: int) -> Iterator[Batch]:  # noqa: ARG001
        return iter(given[start:])

    return lambda: train(task, once, Progress(), after_step=lambda _: None, after_epoch=lambda _: True, epochs=1)


def by_hand(row: Row, given: list[Batch]) -> Callable[[], object]:
    """The loop that one writes without a package."""
    model, loss, optimiser = parts(row)
    parameters = [*model.parameters(), *loss.parameters()]

    def loop() -> None:
        model.train()
        for images, labels, _ in given:
            optimiser.zero_grad()
            value = loss(model(images), labels)
            value.backward()
            nn.utils.clip_grad_value_(parameters, 10.0)
            optimiser.step()

    return loop


def processor_seconds(kept: bool) -> float:
    """Processor time of the steps of the last row by hand, in a fresh process."""
    call = f"from benchmarks.step import spend; spend({kept})"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def spend(kept: bool) -> None:
    """In the fresh process: print the processor time of twice the steps, after one warm round."""
    if kept:
        keep_freed_memory()
    row = ROWS["lite0-96-proxy_anchor"]
    loop = by_hand(row, batches(row))
    loop()
    before = os.times()
    loop()
    loop()
    after = os.times()
    print(after.user + after.system - before.user - before.system)


def figures_of(seconds: dict[str, list[float]], steps: int) -> dict[str, float]:
    """Milliseconds of a step of both sides, and the ratio of the first to the second."""
    spent = {f"{name}, ms": 1000 * median(each) / steps for name, each in seconds.items()}
    return {**spent, "ratio": median_ratio(seconds, *seconds)}


def step(row: Row, rounds: int) -> dict[str, float]:
    """Milliseconds of a step of ours and by hand."""
    given = batches(row)
    return figures_of(alternate({"ours": ours(row, given), "by hand": by_hand(row, given)}, rounds), STEPS)


def allocator(rounds: int) -> dict[str, float]:
    """Processor time with freed memory kept against the C library's habit, in alternating processes."""
    sides = {name: partial(processor_seconds, name == "kept") for name in ("kept", "as usual")}
    return figures_of(take_turns(sides, rounds), 2 * STEPS)


def page_rows(figures: dict[str, dict[str, float]]) -> Iterator[str]:
    """Lines of the table of ``results/distributed.md``."""
    for name, (ours, theirs, ratio) in ((name, row.values()) for name, row in figures.items()):
        yield f"| {name} | {ours:.1f} | {theirs:.1f} | {ratio:.2f} |"


def main() -> None:
    """Measure every row and print those of the page."""
    asked = arguments(__doc__ or "", [*ROWS, "allocator"])
    measured = {name: partial(step, row) for name, row in ROWS.items()} | {"allocator": allocator}
    figures = measure_rows("step", asked, measured, lambda name: measured[name](asked.rounds))
    print("\n".join(page_rows(figures)))


if __name__ == "__main__":
    main()
