"""Cost of losses with two sides: ``python -m benchmarks.two_sides [--only ROW] [--rounds 7] [--json FILE]``.

``time`` at 8,192 pairs of 512 dimensions beside a bare program of the same products, and ``memory`` of a step of 32,768
pairs beyond the vectors, in a fresh process.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.loss_cases import Step, bare
from benchmarks.rounds import alternate, arguments, measure_rows, median_ratio, peak_memory, ratio_interval
from similis.objective.loss import loss

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "info_nce to documents": ("info_nce", {}),
    "info_nce both": ("info_nce", {"direction": "both"}),
    "pairwise_sigmoid": ("pairwise_sigmoid", {}),
}


def pairs(size: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and documents."""
    generator = torch.Generator().manual_seed(0)
    queries, documents = (torch.nn.functional.normalize(torch.randn(size, dim, generator=generator)) for _ in "qd")
    return queries, documents


def ours(name: str, options: dict[str, Any], size: int, dim: int) -> Step:
    """A step with gradients of both sides."""
    made = loss(name, **options)

    def step_of(queries: torch.Tensor, documents: torch.Tensor) -> None:
        made(queries.requires_grad_(), documents=documents.requires_grad_()).backward()

    step_of(*pairs(2048, 8))  # what PyTorch loads when it is first used
    given = pairs(size, dim)
    return lambda: step_of(*(x.detach() for x in given))


def time(rounds: int, size: int = 8192, dim: int = 512) -> dict[str, Any]:
    """Seconds of a step as a multiple of the bare program's."""
    steps = {"bare": bare(*pairs(size, dim))} | {name: ours(*form, size, dim) for name, form in FORMS.items()}
    turns = alternate(steps, rounds)
    found = {name: (median_ratio(turns, name, "bare"), *ratio_interval(turns, name, "bare")) for name in FORMS}
    ratios = {name: dict(zip(("ratio", "low", "high"), r, strict=True)) for name, r in found.items()}
    return {"pairs": size, "dim": dim, **ratios}


def memory(_: int, size: int = 32_768, dim: int = 512) -> dict[str, Any]:
    """Bytes that a step adds to a process that holds the pairs."""
    found = {name: peak_memory("benchmarks.two_sides:ours", *form, size, dim) / 1e6 for name, form in FORMS.items()}
    return {"pairs": size, "dim": dim, **{f"{name}, MB": value for name, value in found.items()}}


def page_rows(figures: dict[str, Any]) -> list[str]:
    """The record as lines of a table: a loss, its time beside the bare program, its memory."""
    ratios, megabytes = figures["time"], figures["memory"]
    return [
        f"| {name} | {ratios[name]['ratio']:.2f} ({ratios[name]['low']:.2f} to {ratios[name]['high']:.2f}) "
        f"| {megabytes[f'{name}, MB']:.0f} |"
        for name in FORMS
    ]


ROWS = {"time": time, "memory": memory}


def main() -> None:
    """Measure and write."""
    given = arguments(__doc__ or "", list(ROWS))
    measure_rows("two_sides", given, ROWS, lambda name: ROWS[name](given.rounds))


if __name__ == "__main__":
    main()
