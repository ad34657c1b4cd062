"""Feature extraction against a bare forward: ``python -m benchmarks.embed``.

The bare side calls the network in inference mode on the same loaded batches and keeps the outputs. Ours also fills
a result in the order of the data set. Target: at least 0.95 of the bare speed.

The rows ``bulk`` compare ``similis embed`` with its bare loop, which decodes the same images of a zip archive, calls
the network, and writes nothing; in this process, and in two processes, whose start is part of both sides. Target: at
least 0.9 of the bare speed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import count as count_up
from pathlib import Path
from zipfile import ZipFile

import torch

from benchmarks.rounds import alternate, arguments, median, median_ratio, print_table, write_json
from similis.data.examples import image_data
from similis.data.loader import Loader
from similis.data.manifest import Manifest
from similis.data.open_data import open_data
from similis.engine.executor import Executor
from similis.model.bulk_embedding import embed_data, worker_threads
from similis.model.embedding_job import open_encoder
from similis.model.load import ModelChoice
from similis.networks.embedder import Embedder, build_embedder
from similis.retrieval.embed import embed
from similis.values import Batch

BATCHES, SIZE_OF_BATCH = 4, 64
TARGET, BULK_TARGET = 0.95, 0.9
PART, BULK_IMAGES = 500, 5000
BULK = {"bulk-1-process": 1, "bulk-2-processes": 2}
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


CHOICE = ModelChoice("small_conv", weights=None, size=32, device="cpu")


def draw_archive(folder: Path) -> Manifest:
    """Drawn images in a zip archive."""
    drawn = open_data(f"synthetic?classes=100&images={BULK_IMAGES // 100}&size=32")
    with ZipFile(folder / "drawn.zip", "w") as archive:
        for row, (name, path) in enumerate(zip(drawn.values("class_name"), drawn.values("path"), strict=True)):
            archive.writestr(f"{name}/{Path(path).name}", drawn.read_bytes(row))
    return open_data(folder / "drawn.zip")


def bare_part(task: tuple[Manifest, int | None]) -> int:
    """Decode the images of a part and call the network."""
    data, threads = task
    if threads is not None:
        torch.set_num_threads(threads)
    network = open_encoder(CHOICE)[0].embedder
    loader = Loader(image_data(data, network.preprocessing), channels_last=True)
    with torch.inference_mode():
        found = [network(batch.images) for batch in loader.ordered(torch.arange(len(data)), batch_size=SIZE_OF_BATCH)]
    return len(torch.cat(found))


def bulk_row(workers: int, rounds: int) -> dict[str, float]:
    """Bulk embedding in so many processes against its bare loop."""
    with tempfile.TemporaryDirectory() as place:
        data, number, executor = draw_archive(Path(place)), count_up(), Executor(workers)
        parts = [data.select(rows) for rows in torch.arange(len(data)).split(PART)]
        tasks = [(part, worker_threads(workers)) for part in parts]
        sides = {
            "bare": lambda: executor.map(bare_part, tasks),
            "ours": lambda: embed_data(
                data,
                Path(place) / f"{next(number)}",
                CHOICE,
                part_size=PART,
                batch_size=SIZE_OF_BATCH,
                executor=executor,
            ),
        }
        # One process of one thread is timed by its own work, because on a shared machine others would decide.
        seconds = alternate(sides, rounds, clock=time.process_time if workers == 1 else time.perf_counter)
    return {
        "ours, images/s": len(data) / median(seconds["ours"]),
        "bare, images/s": len(data) / median(seconds["bare"]),
        "speed ratio": median_ratio(seconds, "bare", "ours"),
    }


def main() -> None:
    """Measure every row, print a table, say whether the target is met."""
    asked = arguments(__doc__ or "", [*ROWS, *BULK])
    figures = {name: bulk_row(workers, asked.rounds) for name, workers in BULK.items() if asked.only in (None, name)}
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
    targets = {name: BULK_TARGET if name in BULK else TARGET for name in figures}
    rows = [[name, *v.values(), "yes" if v["speed ratio"] >= targets[name] else "no"] for name, v in figures.items()]
    heads = ["row", "ours, images/s", "bare, images/s", "ratio", f">= {TARGET}, bulk {BULK_TARGET}"]
    print_table("speed of embedding", heads, rows)
    write_json(asked.json, "python -m benchmarks.embed", figures)


if __name__ == "__main__":
    main()
