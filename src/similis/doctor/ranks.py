"""Several ranks with uneven rows against one process on the global batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from similis.doctor.cases import ROWS, Case, Way, compute, difference, differences, list_cases, numbers
from similis.doctor.losses import Figure, has_float64
from similis.engine.collectives import Collectives, replicate
from similis.engine.launch_ranks import launch
from similis.objective.context import Partition, Tiling


def check_ranks(device: torch.device, ranks: int, names: Sequence[str], seed: int) -> Iterator[Figure]:
    """A figure for each case and rank; too few devices, or one without float64, leave the ranks to the CPU."""
    enough = device.type == "cpu" or torch.get_device_module(device.type).device_count() >= ranks
    here = device.type if enough and has_float64(device) else "cpu"
    cases = [case for case in list_cases(names, seed) if case.call not in ("many", "frozen", "penalty")]
    for rank, figures in enumerate(launch(compare_rows, ranks, cases, device=here, restarts=0)):
        yield from (found._replace(way=f"{here} rank {rank} of {ranks}, {found.way}") for found in figures)


def compare_rows(communicator: Collectives, cases: Sequence[Case]) -> list[Figure]:
    """What this rank computes of each case, dense and in tiles, with different numbers of rows."""
    figures = [check_collectives(communicator)]
    for number, case in enumerate(cases):
        whole = compute(case, Way())
        for name, tiling in (("dense", None), ("tiled", Tiling(5, 4))):
            part = Partition(communicator, split_rows(communicator.world, empty=tiling is None and number % 2 == 0))
            own = torch.split(whole[1], [*part.counts])[communicator.rank]
            got = compute(case, Way(tiling=tiling), communicator.device, part)
            value, gradient = differences(got, [whole[0], own, *whole[2:]])
            figures.append(Figure(str(case), name, value, gradient, max(value, gradient) <= 1e-9))
    return figures


def check_collectives(communicator: Collectives) -> Figure:
    """Mean, broadcast and gather of numbers that every rank knows, and the gradients of a replicated network."""
    world, rank, counts = communicator.world, communicator.rank, split_rows(communicator.world, empty=False)
    every = torch.split(numbers((ROWS, 4), 3), [*counts])
    own, sums = every[rank].to(communicator.device), torch.stack([each.sum(0) for each in every])
    network = replicate(nn.Linear(4, 1, bias=False).to(own), communicator)
    (network(own) * (rank + 1)).sum().backward()
    communicator.average(means := [own.sum(0), own.sum(0).float()])
    pairs = [
        (communicator.gather(own > 0, counts), torch.cat(every) > 0), (means[0], sums.mean(0)),
        (means[1], sums.mean(0)), (communicator.broadcast(own.sum(0), world - 1), sums[-1]),
        (next(network.parameters()).grad, (sums * torch.arange(1, world + 1)[:, None]).mean(0)[None]),
    ]  # fmt: skip
    gap = max(difference(got.cpu().double(), want.double()) for got, want in pairs if got is not None)
    return Figure("collectives", "exchange", gap, gap, gap <= 1e-6)


def split_rows(world: int, *, empty: bool) -> tuple[int, ...]:
    """Uneven rows of each rank; the last one has none, if one shall be empty.

    Example:
        >>> split_rows(4, empty=False), split_rows(4, empty=True)
        ((16, 10, 7, 3), (18, 12, 6, 0))
    """
    weights = [world - rank - empty for rank in range(world)]
    counts = [ROWS * weight // sum(weights) for weight in weights]
    return (ROWS - sum(counts[1:]), *counts[1:])
