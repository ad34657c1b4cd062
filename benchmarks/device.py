"""What a device does with a step: for a user with a card, one command and a file to send.

``python -m benchmarks.device [--device auto] [--json FILE]`` times a training step of an ImageNet network, four losses
at four batch sizes, three of them compiled, embedding and exact evaluation, and counts how often a step makes the host
wait (CUDA says so by itself). On the processor the sizes are smaller, so that it ends within minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.rounds import alternate, median, median_ratio, print_table, write_json
from similis.engine.device import choose_device, describe_device
from similis.objective.loss import loss
from similis.retrieval.embed import embed
from similis.retrieval.evaluate import evaluate
from similis.values import Batch, Embedded

LOSSES = ("multi_similarity", "supcon", "triplet", "proxy_anchor")
DIM, CLASSES, ROUNDS = 512, 10_000, 7


def timed(device: torch.device, step: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median seconds of a step, the device's queue emptied before and after."""
    seconds = []
    for _ in range(rounds + 1):
        wait(device)
        begin = time.perf_counter()
        step()
        wait(device)
        seconds.append(time.perf_counter() - begin)
    return median(seconds[1:])


def wait(device: torch.device) -> None:
    """Until the device has done all."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def waits(device: torch.device, step: Callable[[], object]) -> int | None:
    """How often a step makes the host wait; None where the device does not say."""
    if device.type != "cuda":
        return None
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(each.message) for each in caught)


def loss_rows(device: torch.device, sizes: tuple[int, ...]) -> dict[str, dict[str, float | int | None]]:
    """One step, forward and backward, of each loss at each batch size, d = 512."""
    found = {}
    generator = torch.Generator().manual_seed(0)
    for name in LOSSES:
        for size in sizes:
            labels = torch.arange(size) // 4
            made = loss(name, num_classes=CLASSES, dim=DIM) if name == "proxy_anchor" else loss(name)
            made, x = made.to(device), torch.randn(size, DIM, generator=generator).to(device).requires_grad_()

            def step(made=made, x=x, labels=labels) -> None:
                made(x, labels).backward()

            found[f"{name} {size}"] = {"seconds": timed(device, step), "waits": waits(device, step)}
    return found


def compiled_rows(device: torch.device, size: int) -> dict[str, dict[str, float]]:
    """One step of each loss with and without ``loss.compile()``, in turns."""
    x = torch.randn(size, DIM, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
    labels = (torch.arange(size) // 4).to(device)
    found = {}
    for name in ("multi_similarity", "supcon", "proxy_anchor"):
        steps = {}
        for kind in ("eager", "compiled"):
            made = (loss(name, num_classes=CLASSES, dim=DIM) if name == "proxy_anchor" else loss(name)).to(device)
            if kind == "compiled":
                made.compile(fullgraph=True)

            def step(made=made) -> None:
                made(x, labels).backward()
                wait(device)

            steps[kind] = step
        turns = alternate(steps, ROUNDS)
        found[f"{name} {size}"] = {kind: median(seconds) for kind, seconds in turns.items()} | {
            "times faster": median_ratio(turns, "eager", "compiled")
        }
    return found


def network_rows(device: torch.device, batch: int, size: int) -> dict[str, dict[str, float | int | None]]:
    """A training step with an ImageNet network, and embedding, in images a second."""
    from similis.networks.embedder import build_embedder
    from similis.training.loop import Task, train_step
    from similis.training.optimisers import Rates, Schedule, build_optimiser, parameter_groups

    model = build_embedder(backbone="resnet50", weights=None, dim=DIM, image_size=size, seed=0).to(device)
    criterion = loss("multi_similarity").to(device)
    images = torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(0)).to(device)
    given = Batch(images, torch.arange(batch) // 4, torch.arange(batch))
    found = {}
    for precision in ("float32", "bf16"):
        rates = Rates("adamw", 1e-4)
        optimiser = build_optimiser(parameter_groups(model, model.head_parameters, criterion, rates), rates)
        task = Task(model, criterion, optimiser, Schedule(), 1, 1, seed=0, precision=precision)

        def step(task=task) -> None:
            train_step(task, given, 0)

        found[f"step, {precision}"] = {"images/s": batch / timed(device, step, 3), "waits": waits(device, step)}
    spent = timed(device, lambda: embed(model, [given], count=batch), 3)
    return found | {"embedding, float32": {"images/s": batch / spent, "waits": None}}


def evaluation_row(device: torch.device, images: int) -> float:
    """Seconds of an exact evaluation: R@1 to R@8 and MAP@R of all images against all."""
    vectors = torch.randn(images, DIM, generator=torch.Generator().manual_seed(0)).to(device)
    found = Embedded(vectors, torch.arange(images) // 5, torch.arange(images))
    return timed(device, lambda: evaluate(found, ks=(1, 2, 4, 8)), 1)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", choices=["losses", "compiled", "network", "evaluation"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    device = choose_device(given.device)
    small = device.type == "cpu"
    figures: dict[str, object] = {"device": describe_device(device), "torch": torch.__version__}
    print(figures["device"])
    if given.only in (None, "losses"):
        figures["losses"] = found = loss_rows(device, (128, 512, 1024, 2048) if small else (512, 2048, 8192, 32768))
        print_table(
            "Losses", ["loss, B", "seconds", "waits"], [(k, v["seconds"], v["waits"]) for k, v in found.items()]
        )
    if given.only in (None, "compiled"):
        figures["compiled"] = pairs = compiled_rows(device, 512 if small else 2048)
        print_table(
            "Compiled", ["loss, B", "eager", "compiled", "times faster"], [(k, *v.values()) for k, v in pairs.items()]
        )
    if given.only in (None, "network"):
        figures["network"] = rows = network_rows(device, 8 if small else 128, 64 if small else 224)
        print_table(
            "resnet50", ["what", "images/s", "waits"], [(k, v["images/s"], v["waits"]) for k, v in rows.items()]
        )
    if given.only in (None, "evaluation"):
        images = 5_000 if small else 60_000
        figures["evaluation"] = {"images": images, "seconds": evaluation_row(device, images)}
        print(f"exact evaluation of {images:,} images: {figures['evaluation']['seconds']:.2f} s")
    write_json(given.json, f"python -m benchmarks.device --device {given.device}", figures)


if __name__ == "__main__":
    main()
