"""``similis embed SOURCE OUT --model RUN|NAME``: the vectors of a whole collection as Parquet files."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import AllowCounts, Cpus, Device, Gpus, Model, OnRay, Root, Size, Source, Weights
from similis.cli.screen import console, print_lines


def embed(
    *,
    source: Source,
    out: Annotated[str, typer.Argument(help="Folder or URL of the vectors; the same command continues in it.")],
    model: Model,
    weights: Weights = "pretrained",
    size: Size = None,
    part_size: Annotated[int, typer.Option(help="Images in a part: what a killed worker loses.", min=1)] = 4096,
    batch: Annotated[int, typer.Option(help="Images in one forward pass.", min=1)] = 64,
    max_skipped: Annotated[float, typer.Option(help="Share of unreadable images that is accepted.")] = 0.01,
    workers: Annotated[int | None, typer.Option(help="Processes that embed. [1; on Ray as many as fit]", min=1)] = None,
    on_ray: OnRay = False,
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster, or auto; implies --ray.")] = None,
    cpus: Cpus = 1.0,
    gpus: Gpus = 0.0,
    allow_counts: AllowCounts = False,
    root: Root = None,
    device: Device = "auto",
) -> Result:
    """Embed every image once, in parts. Rerun the command to continue, or to follow changes of the collection."""
    from similis.engine.executor import Executor
    from similis.engine.ray import Share
    from similis.model.bulk_embedding import embed_data
    from similis.model.load import ModelChoice

    choice = ModelChoice(str(Path(model).absolute()) if Path(model).is_dir() else model, weights, size, device)
    executor = Executor(workers, on_ray or address is not None, address, Share(cpus, gpus))
    done = embed_data(
        source, out, choice, part_size=part_size, batch_size=batch, max_skipped=max_skipped, executor=executor,
        on_part=PartProgress().show, root=root, allow_counts=allow_counts,
    )  # fmt: skip
    speed = done.embedded / done.seconds
    print_lines(f"{done.images:,} vectors of {done.dim} dimensions in {out}, {done.embedded:,} of them embedded now; "
                f"{speed:.0f} images/s")  # fmt: skip
    if done.skipped:
        print_lines(f"{done.skipped:,} items could not be read; skipped.parquet in {out} names them and says why")
    return {**done._asdict(), "images_per_second": speed}


class PartProgress:
    """Images done and speed, after each part: one line that moves on a terminal, many lines in a pipe."""

    def __init__(self) -> None:
        self.begun, self.done = time.perf_counter(), 0

    def show(self, more: int) -> None:
        """So many more images are done."""
        self.done += more
        speed = self.done / (time.perf_counter() - self.begun)
        console().print(
            f"{self.done:,} images  {speed:.0f} images/s", markup=False, end="  \r" if sys.stdout.isatty() else "\n"
        )
