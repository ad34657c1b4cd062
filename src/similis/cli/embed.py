"""``similis embed SOURCE OUT --model RUN|NAME``: the vectors of a whole data set as Parquet files."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from similis.cli.json_output import Result
from similis.cli.options import AllowCounts, Cpus, Device, Gpus, Model, OnRay, Root, Size, Source, Weights
from similis.cli.screen import console, print_lines


def embed(
    *,
    source: Source,
    out: Annotated[Path, typer.Argument(help="Folder of the vectors; the same command continues in it.")],
    model: Model,
    weights: Weights = "pretrained",
    size: Size = None,
    key: Annotated[
        Literal["path", "content"], typer.Option(help="Identify each image by its path, or by a hash of its content.")
    ] = "path",
    part_size: Annotated[int, typer.Option(help="Images in a part: what a killed worker loses.", min=1)] = 4096,
    batch: Annotated[int, typer.Option(help="Images in one forward pass.", min=1)] = 64,
    workers: Annotated[int | None, typer.Option(help="Processes that embed. [1; on Ray as many as fit]", min=1)] = None,
    on_ray: OnRay = False,
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster, or auto; implies --ray.")] = None,
    cpus: Cpus = 1.0,
    gpus: Gpus = 0.0,
    allow_counts: AllowCounts = False,
    root: Root = None,
    device: Device = "auto",
) -> Result:
    """Embed every image once, in parts. If it is killed, rerun the command to embed what is missing."""
    from similis.data.open_data import open_data
    from similis.engine.executor import Executor
    from similis.engine.ray import Share
    from similis.model.bulk_embedding import embed_data
    from similis.model.load import ModelChoice

    choice = ModelChoice(str(Path(model).absolute()) if Path(model).is_dir() else model, weights, size, device)
    opened = open_data(source, root=root, allow_counts=allow_counts)
    executor = Executor(workers, on_ray or address is not None, address, Share(cpus, gpus))
    done = embed_data(
        opened, out, choice, key=key, part_size=part_size, batch_size=batch, executor=executor,
        on_part=PartProgress().show,
    )  # fmt: skip
    speed = done.embedded / done.seconds
    words = f"{done.images:,} vectors of {done.dim} dimensions in {out}, {done.images - done.embedded:,} of them before"
    print_lines(f"{words}; {speed:.0f} images/s")
    return {**done._asdict(), "images_per_second": speed}


class PartProgress:
    """Images done, speed and time left, after each part: one line that moves on a terminal, many lines in a pipe."""

    def __init__(self) -> None:
        self.begun, self.done = time.perf_counter(), 0

    def show(self, images: int, more: int) -> None:
        """So many more of these images are embedded."""
        from similis.cli.progress import format_clock

        self.done += more
        spent, moves = time.perf_counter() - self.begun, sys.stdout.isatty() and self.done < images
        left = format_clock(spent / self.done * (images - self.done))
        words = f"{self.done:,}/{images:,} images  {self.done / spent:.0f} images/s  {left} left"
        console().print(words, markup=False, end="  \r" if moves else "\n")
