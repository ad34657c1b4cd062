"""``similis embed SOURCE OUT --model RUN|NAME``: the vectors of a whole data set as Parquet files."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from similis.cli.json_output import Result
from similis.cli.options import AllowCounts, Device, Root, Size, Weights


def embed(
    *,
    source: Annotated[
        str, typer.Argument(help="Folder of class folders, .zip, .csv, .parquet, a URL of these, a known name.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder of the vectors; the same again continues.")],
    model: Annotated[str, typer.Option(help="A run's folder, a saved model or bundle, or a network's name.")],
    weights: Weights = "pretrained",
    size: Size = None,
    key: Annotated[
        Literal["path", "content"], typer.Option(help="The id of a vector: its path in SOURCE, or a hash of its image.")
    ] = "path",
    part_size: Annotated[int, typer.Option(help="Images in a part: what a killed worker loses.", min=1)] = 4096,
    batch: Annotated[int, typer.Option(help="Images in one forward.", min=1)] = 64,
    workers: Annotated[
        int | None, typer.Option(help="Processes that embed. [1; on Ray as many as it has room for]", min=1)
    ] = None,
    on_ray: Annotated[bool, typer.Option("--ray", help="Work as tasks of Ray.")] = False,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster, or auto; implies --ray.")] = None,
    cpus: Annotated[float, typer.Option(help="Processors of a worker on Ray.")] = 1.0,
    gpus: Annotated[float, typer.Option(help="Graphics cards of a worker on Ray, for example 0.25.")] = 0.0,
    allow_counts: AllowCounts = False,
    root: Root = None,
    device: Device = "auto",
) -> Result:
    """Embed every image once, in parts; if it is killed, the same command continues with what is missing."""
    from similis.cli.screen import console
    from similis.data.open_data import open_data
    from similis.engine.executor import Executor
    from similis.engine.ray import Share
    from similis.model.bulk_embedding import embed_data
    from similis.model.load import ModelChoice

    choice = ModelChoice(str(Path(model).absolute()) if Path(model).is_dir() else model, weights, size, device)
    opened = open_data(source, root=root, allow_counts=allow_counts)
    executor = Executor(workers, on_ray or address is not None, address, Share(cpus, gpus))
    done = embed_data(
        opened,
        out,
        choice,
        key=key,
        part_size=part_size,
        batch_size=batch,
        executor=executor,
        on_part=PartProgress().show,
    )
    speed = done.embedded / done.seconds
    words = f"{done.images:,} vectors of {done.dim} dimensions in {out}, {done.images - done.embedded:,} of them before"
    console().print(f"{words}; {speed:.0f} images/s", markup=False, soft_wrap=True)
    return {**done._asdict(), "images_per_second": speed}


class PartProgress:
    """Images done, speed and time left, after each part: one line that moves on a terminal, many lines in a pipe."""

    def __init__(self) -> None:
        self.begun, self.done = time.perf_counter(), 0

    def show(self, images: int, more: int) -> None:
        """So many more of these images are embedded."""
        from similis.cli.progress import clock
        from similis.cli.screen import console

        self.done += more
        spent, moves = time.perf_counter() - self.begun, sys.stdout.isatty() and self.done < images
        left = clock(spent / self.done * (images - self.done))
        words = f"{self.done:,}/{images:,} images  {self.done / spent:.0f} images/s  {left} left"
        console().print(words, markup=False, end="  \r" if moves else "\n")
