"""Losses on a device against the same losses, dense, in float64 on the CPU, and these against recorded numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from similis.doctor.cases import CPU, Case, Way, compute, difference, differences, list_cases, numbers
from similis.objective.context import Tiling

RECORDED = Path(__file__).with_name("recorded.json")
OTHER_BATCH = 1009  # added to the seed of a case that fails: a fault fails again, a threshold that rounding crosses not
SINGLE, HALF = (1e-5, 1e-4), (1e-5, 1e-2)
TILES, MANY_TILES = Tiling(13, 9), Tiling(64, 48)
WAYS = {
    "float64 dense": Way(),
    "float64 tiled": Way(tiling=TILES),
    "float32": Way(torch.float32, "auto", SINGLE),  # as everyone computes it
    "float32 tiled": Way(torch.float32, TILES, SINGLE),
    "bf16 autocast": Way(torch.bfloat16, "auto", HALF, torch.bfloat16),
    "compiled": Way(torch.float32, None, SINGLE, compiled=True),
}
COMPILED = ("supcon:default labels", "triplet:euclid2 labels", "proxy_anchor:default labels")  # seconds for each
NO_COMPILER = ("InvalidCxxCompiler", "TritonMissing", "GPUTooOldForTriton")


class Figure(NamedTuple):
    """A comparison: the differences of the value and of the worst gradient, and whether that is right."""

    case: str
    way: str
    value: float = 0.0
    gradient: float = 0.0
    right: bool | None = None  # None where nothing was measured
    error: str = ""


def check_losses(device: torch.device, names: Sequence[str], seed: int, *, compiled: bool = False) -> Iterator[Figure]:
    """A figure for each case in each way of this device and as recorded, or for the few that are compiled."""
    recorded = json.loads(RECORDED.read_text())
    for case in [case for case in list_cases(names, seed) if not compiled or str(case) in COMPILED]:
        for name, way in WAYS.items():
            if way.compiled == compiled and applies(way, case, device):
                tiling = MANY_TILES if way.tiling == TILES and case.call == "many" else way.tiling
                yield compare(case, name, way._replace(tiling=tiling), device)
        if str(case) in recorded and not compiled:
            found, want = project(compute(case._replace(seed=0), Way())), recorded[str(case)]
            gap = difference(found, torch.tensor(want, dtype=torch.float64))
            yield Figure(str(case), "recorded", gap, gap, gap <= 1e-7)


def applies(way: Way, case: Case, device: torch.device) -> bool:
    """Whether a case can be computed in a way that is not the reference itself."""
    if case.call == "penalty" and way != Way():  # tiles have no second derivatives, and rounding spoils them
        return False
    itself = way == Way() and device == CPU
    return not itself and (way.dtype != torch.float64 or has_float64(device))


def compare(case: Case, name: str, way: Way, device: torch.device) -> Figure:
    """What a device computes against the reference; a failure is tried again with another batch."""
    for each in (case, case._replace(seed=case.seed + OTHER_BATCH)):
        try:
            if way.compiled:
                torch.compiler.reset()
            value, gradient = differences(compute(each, way, device), reference(each, way.rounded))
        except Exception as error:  # whatever a device raises is what its owner wants to report
            words = f"{type(error).__name__}: {error}"  # of the compiler's own error inside PyTorch's
            right = None if any(kind in words for kind in NO_COMPILER) else False
            return Figure(str(case), name, right=right, error=words)
        right = value <= way.tolerances[0] and gradient <= way.tolerances[1]
        if right:
            break
    return Figure(str(case), name, value, gradient, right)


@lru_cache(maxsize=4)  # the ways of one case
def reference(case: Case, rounded: torch.dtype) -> list[Tensor]:
    """The case in float64 on the CPU as one dense matrix, of embeddings rounded to a type."""
    return compute(case, Way(rounded=rounded), CPU)


def project(found: list[Tensor]) -> Tensor:
    """The value, and a weighted sum of each gradient."""
    return torch.stack([(each * numbers(each.shape, 7)).sum() if place else each for place, each in enumerate(found)])


def record() -> None:
    """Write the numbers of all cases as they are computed now: after a loss is added, or its mathematics changed."""
    lines = [f'"{case}": {project(compute(case, Way())).tolist()}' for case in list_cases()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def has_float64(device: torch.device) -> bool:
    """Whether a device computes in float64."""
    with suppress(TypeError, RuntimeError):
        return bool(torch.ones(1, dtype=torch.float64, device=device).add(1) > 1)
    return False
