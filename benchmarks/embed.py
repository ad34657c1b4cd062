"""Feature extraction against a bare forward: ``python -m benchmarks.embed``.

The bare side calls the network in inference mode on the same loaded batches and keeps the outputs. Ours also fills
a result in the order of the data set. Target: at least 0.95 of the bare speed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.rounds import alternate, arguments, median, median_ratio, print_table, write_json
from similis.model.embedder import Embedder, build_embedder
from similis.retrieval.embed import embed
from similis.values import Batch

BATCHES, SIZE_OF_BATCH = 4, 64
TARGET = 0.95
ROWS = {"small_conv-32": ("small_conv", 32), "lite0-96": ("tf_efficientnet_lite0", 96)}


def batches(size: int) -> list[Batch]:
    """Random images in the order of the data set."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(BATCHES * SIZE_OF_BATCH, 3, size, size, generator=generator)
    rows = torch.arange(len(images))
    return [
        Batch(images[part].contiguous(memory_format=torch.channels_last), part % 7, part)
        for part in rows.split(SIZE_OF_BATCH)
    ]


def bare(model: Embedder, given: list[Batch]) -> Callable[[], object]:
    """The network on every batch."""

    def forward() -> torch.Tensor:
        with torch.inference_mode():
            return torch.cat([model(batch.images) for batch in given])

    return forward


def main() -> None:
    """Measure every row, print a table, say whether the target is met."""
    asked = arguments(__doc__ or "", list(ROWS))
    figures = {}
    for name, (backbone, size) in ROWS.items():
        if asked.only in (None, name):
            given = batches(size)
            model = build_embedder(backbone=backbone, weights=None, dim=128, image_size=size).eval()
            model.to(memory_format=torch.channels_last)
            count = BATCHES * SIZE_OF_BATCH
            sides = {"bare": bare(model, given), "ours": lambda m=model, g=given, c=count: embed(m, g, count=c)}
            seconds = alternate(sides, asked.rounds)
            figures[name] = {
                "ours, images/s": count / median(seconds["ours"]),
                "bare, images/s": count / median(seconds["bare"]),
                "speed ratio": median_ratio(seconds, "bare", "ours"),
            }
    rows = [[name, *v.values(), "yes" if v["speed ratio"] >= TARGET else "no"] for name, v in figures.items()]
    print_table("speed of embedding", ["row", "ours, images/s", "bare, images/s", "ratio", f">= {TARGET}"], rows)
    write_json(asked.json, "python -m benchmarks.embed", figures)


if __name__ == "__main__":
    main()
