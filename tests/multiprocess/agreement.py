"""The comparison of several processes with one."""

from __future__ import annotations

import torch

from tests.multiprocess.work import alone, several

EXACT = 1e-10


def assert_equal(ranks, work, *, steps=1) -> None:
    """Every case on every process: the value, and every gradient relative to the larger of 1 and its size."""
    given = [(case, counts, steps) for case, counts in work]
    answers = ranks.call(several, given)
    for rank, answer in enumerate(answers):
        for (case, counts, _), found in zip(given, answer, strict=True):
            gaps = differences(case, [found], steps)
            place = f"{case} {counts} rank {rank}: {gaps}"
            assert max(gaps["value"], gaps["gradient"]) <= EXACT, place


def differences(case, found, steps=1) -> dict[str, float]:
    """Largest relative differences of values and of gradients between processes and one process."""
    want = alone(case, steps)
    gaps = {"value": [], "gradient": []}
    for process in found:
        for one, other in zip(process, want, strict=True):
            assert len(one) == len(other)
            for place, (a, b) in enumerate(zip(one, other, strict=True)):
                assert a.shape == b.shape
                gaps["gradient" if place else "value"].append(gap(a, b))
    return {key: float(torch.stack(value).max()) for key, value in gaps.items()}  # keeps a NaN


def gap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a - b).abs().max().double() / max(1.0, float(b.abs().max()))
