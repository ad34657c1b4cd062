"""Bulk embedding beside a bare loop: ``python -m benchmarks.embed``.

``similis embed`` beside its bare loop, which decodes the same images of a zip archive, calls the network, and writes
nothing; in this process, and in two processes, whose start is part of both sides. Target: at least 0.9 of the bare
speed.
"""

from __future__ import annotations

import tempfile
import time
from itertools import count as count_up
from pathlib import Path
from zipfile import ZipFile

import torch

from benchmarks.rounds import alternate, arguments, measure_rows, median, median_ratio
from similis.data.examples import image_data
from similis.data.loader import Loader
from similis.data.manifest import Manifest
from similis.data.open_data import open_data
from similis.engine.executor import Executor
from similis.model.bulk_embedding import embed_data, worker_threads
from similis.model.embedding_job import open_encoder
from similis.model.load import ModelChoice

SIZE_OF_BATCH, PART, IMAGES = 64, 500, 5000
ROWS = {"bulk-1-process": 1, "bulk-2-processes": 2}
CHOICE = ModelChoice("small_conv", weights=None, size=32, device="cpu")


def draw_archive(place: Path, images: int) -> Manifest:
    """A zip archive of drawn images in class folders."""
    drawn = open_data(f"synthetic?classes=100&images={images // 100}&size=32")
    with ZipFile(place, "w") as archive:
        for row, (name, path) in enumerate(zip(drawn.values("class_name"), drawn.values("path"), strict=True)):
            archive.writestr(f"{name}/{Path(path).name}", drawn.read_bytes(row))
    return open_data(place)


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
        data, number, executor = draw_archive(Path(place) / "drawn.zip", IMAGES), count_up(), Executor(workers)
        parts = [data.select(rows) for rows in torch.arange(len(data)).split(PART)]
        tasks = [(part, worker_threads(workers)) for part in parts]
        sides = {
            "bare": lambda: executor.map(bare_part, tasks),
            "ours": lambda: embed_data(data, Path(place) / f"{next(number)}", CHOICE, part_size=PART,
                                       batch_size=SIZE_OF_BATCH, executor=executor),
        }  # fmt: skip
        # One process of one thread is timed by its own work, because on a shared machine others would decide.
        seconds = alternate(sides, rounds, clock=time.process_time if workers == 1 else time.perf_counter)
    return {
        "ours, images/s": len(data) / median(seconds["ours"]),
        "bare, images/s": len(data) / median(seconds["bare"]),
        "speed ratio": median_ratio(seconds, "bare", "ours"),
    }


def main() -> None:
    """Measure and write."""
    asked = arguments(__doc__ or "", list(ROWS))
    measure_rows("embed", asked, ROWS, lambda name: bulk_row(ROWS[name], asked.rounds))


if __name__ == "__main__":
    main()
