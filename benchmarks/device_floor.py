"""What a step of a loss costs an accelerator at least, beside its products: launches and memory traffic.

Nobody has timed it on a card. Counted on the emulated device of ``tests/accelerator`` and turned into time by three
numbers of an A100: ``python -m benchmarks.device_floor`` prints the table of ``docs/devices.md``.
"""

from __future__ import annotations

from typing import NamedTuple

LAUNCH = 10e-6  # seconds until a kernel that Python asks for has been started
BANDWIDTH = 1555e9  # bytes a second
PRODUCTS = 19.5e12  # floating point operations a second in IEEE float32
ROWS, DIM, CLASSES = 8192, 512, 10_000
TILE = 4096

# Seconds of the products of forward and backward pass at that rate, where a symmetric matrix is made by halves.
FLOOR_OF_PRODUCTS = {"multi_similarity": 5.8e-3, "supcon": 3.9e-3, "proxy_anchor": 8.7e-3}
LIMITS = {"dense": 2.5, "tiles": 3.0}  # times the products


class Floor(NamedTuple):
    """Launches, bytes that kernels read and write, and the time of both in seconds."""

    launches: int
    traffic: int

    @property
    def seconds(self) -> float:
        """Launches and traffic one after the other."""
        return self.launches * LAUNCH + self.traffic / BANDWIDTH


def count_step(
    name: str, way: str, rows: int = ROWS, dim: int = DIM, classes: int = CLASSES, tile: int = TILE
) -> Floor:
    """Forward and backward of a loss, counted on the emulated device, as one matrix or in tiles."""
    import torch

    from similis.objective.context import Context, Tiling, use_context
    from similis.objective.loss import loss
    from tests.accelerator.emulator import NAME, load
    from tests.accelerator.emulator.counting import count

    load()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, dim, generator=generator).to(NAME).requires_grad_()
    labels = torch.randint(classes, (rows,), generator=generator).to(NAME)
    made = loss(name, num_classes=classes, dim=dim).to(NAME)
    with use_context(Context(tiling=None if way == "dense" else Tiling(tile, tile))), count() as counts:
        made(x, labels).backward()
    return Floor(counts.launches, counts.traffic)


def main() -> None:
    """Print the table."""
    print(f"B = {ROWS:,}, D = {DIM}, C = {CLASSES:,}; times the products in brackets")
    print("| loss | products | one matrix | tiles of 4,096 |\n| --- | --- | --- | --- |")
    for name, products in FLOOR_OF_PRODUCTS.items():
        cells = []
        for way in LIMITS:
            found = count_step(name, way)
            cells.append(
                f"{found.launches} launches, {found.traffic / 1e9:.1f} GB: {found.seconds * 1e3:.1f} ms "
                f"({found.seconds / products:.2f})"
            )
        print(f"| {name} | {products * 1e3:.1f} ms | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
