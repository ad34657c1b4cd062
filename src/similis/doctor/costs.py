"""Peak memory of a step against the library's plan; times as ratios to bare products or a bare forward pass."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Literal

import torch
from torch import Tensor, nn

from similis.doctor.cases import FEW
from similis.doctor.losses import Figure
from similis.engine.device import peak_memory
from similis.engine.launch_ranks import launch
from similis.networks.embedder import build_embedder
from similis.objective.backends.dense_or_tiled import DENSE_LIMIT, PAIR_BYTES
from similis.objective.context import Context, Tiling, use_context
from similis.objective.loss import loss
from similis.retrieval.embed import embed
from similis.retrieval.search import search
from similis.run.cost import synchronised_time
from similis.training.loop import Task, train_step
from similis.training.optimisers import Rates, Schedule, build_optimiser, parameter_groups
from similis.values import Batch, Communicator, MissingExtraError

NETWORKS, ROUNDS, DIM = ("small_conv", "resnet18"), 5, 64
TILES = Tiling(256, 256)
STEPS: dict[str, tuple[int, Tiling | Literal["auto"] | None]] = {  # rows and tiling
    "tiled": (2048, TILES), "auto": (4096, "auto"), "dense": (2048, None),
}  # fmt: skip
VECTORS = 32  # of embeddings or proxies: both raw, on the sphere, in the order of labels, and their gradients
SLACK = 2**25  # bytes of kernels that are loaded at their first use, and of pages that an allocator keeps


def check_memory(device: torch.device, names: Sequence[str]) -> Iterator[Figure]:
    """A figure for each loss in tiles, as Similis chooses and as one matrix: the peak as a share of the plan."""
    known, chosen = peak_memory(device) is not None, [name for name in FEW if not names or name in names]
    most = {"tiled": TILES.rows * TILES.columns, "dense": STEPS["dense"][0] ** 2}  # pairs held at once
    most["auto"] = DENSE_LIMIT if device.type == "cpu" else STEPS["auto"][0] ** 2
    cases = [(name, way) for way in sorted(most, key=most.__getitem__) for name in chosen]
    peaks = launch(measure_peaks, 1, cases, device=str(device), restarts=0)[0] if known and cases else [0] * len(cases)
    for (name, way), peak in zip(cases, peaks, strict=True):
        share = peak / (PAIR_BYTES * most[way] + VECTORS * STEPS[way][0] * DIM * 4 + SLACK)
        yield Figure(name, way, share, right=share <= 1 if known else None)


def measure_peaks(communicator: Communicator, cases: Sequence[tuple[str, str]]) -> list[int]:
    """Bytes by which steps raise the peak of this fresh process above that of small steps, each after those before."""
    peaks = []
    for share, (name, way) in product((16, 1), cases):
        rows, tiling = STEPS[way]
        step = loss_step(name, torch.randn(rows // share, DIM, device=communicator.device))
        with use_context(Context(tiling=tiling)):
            step()
        peaks.append(peak_memory(communicator.device) or 0)
    return [peak - peaks[len(cases) - 1] for peak in peaks[len(cases) :]]


def check_speed(device: torch.device, names: Sequence[str]) -> Iterator[Figure]:
    """A figure for each thing that takes time: ``value`` is its ratio, and no ratio is wrong."""
    x = torch.randn(1024, 128, device=device)
    for name in [each for each in FEW if not names or each in names]:
        yield Figure(name, "step over its products", ratio(device, loss_step(name, x), lambda: (x @ x.T) @ x @ x.T @ x))
    for name in NETWORKS:
        try:
            yield from network_ratios(name, device)
        except MissingExtraError as error:
            yield Figure(name, "training and embedding", error=f"{name} is not measured: {error}")
    rows = nn.functional.normalize(torch.randn(20_000, 128, device=device))
    found = ratio(device, lambda: search(rows[:1024], rows, 10), lambda: rows[:1024] @ rows.T)
    yield Figure("search", "over its product", found)


def loss_step(name: str, x: Tensor) -> Callable[[], None]:
    """Forward and backward of a loss, with as many classes as rows."""
    made, labels = loss(name, num_classes=len(x), dim=x.shape[1]).to(x.device), torch.arange(len(x)) // 4
    return lambda: made(x.clone().requires_grad_(), labels).backward()


def network_ratios(name: str, device: torch.device) -> Iterator[Figure]:
    """A training step and embedding over the network's forward pass."""
    model, made, rates = (
        build_embedder(backbone=name, dim=128, image_size=32).to(device),
        loss("supcon"),
        Rates("sgd", 0.1),
    )
    batch = Batch(torch.randn(32, 3, 32, 32, device=device), torch.arange(32) // 4, torch.arange(32))
    optimiser = build_optimiser(parameter_groups(model, model.head_parameters, made, rates), rates)
    task = Task(model, made, optimiser, Schedule(), 1, 1, seed=0)

    @torch.inference_mode()
    def forward() -> None:
        model.eval()(batch.images)

    yield Figure(name, "training step over forward", ratio(device, lambda: train_step(task, batch, 0), forward))
    yield Figure(name, "embedding over forward", ratio(device, lambda: embed(model, [batch], count=32), forward))


def ratio(device: torch.device, ours: Callable[[], object], bare: Callable[[], object]) -> float:
    """How many times as long ours takes: the median over rounds in which both take turns."""
    found = []
    for _ in range(ROUNDS + 1):  # the first one warms up
        moments = [synchronised_time(device)]
        for step in (ours, bare):
            step()
            moments.append(synchronised_time(device))
        found.append((moments[1] - moments[0]) / (moments[2] - moments[1]))
    return statistics.median(found[1:])
