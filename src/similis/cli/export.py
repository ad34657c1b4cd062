"""``similis export RUN OUT``: a model with its gallery, thumbnails and card in one folder, ready to be served."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import Device, Root


def export(
    *,
    run: Annotated[Path, typer.Argument(help="The folder of a finished run, or of a saved model.")],
    out: Annotated[Path, typer.Argument(help="Folder that is written; a bundle that is there is replaced.")],
    gallery: Annotated[str | None, typer.Option(help="Data to search in. [the images of the run]")] = None,
    root: Root = None,
    workers: Annotated[int, typer.Option(help="Processes that load images.", min=0)] = 0,
    device: Device = "auto",
) -> Result:
    """Write a bundle: all that `similis serve` and `similis.load` need, without the images."""
    from similis.cli.screen import console
    from similis.run.export import export_bundle
    from similis.run.machine import Machine

    machine = Machine(device=device, workers=workers, data_root=root)
    made = export_bundle(run, out, machine, gallery=gallery)
    say = console().print
    say(f"bundle  {out}: {made['images']:,} images, {made['bytes'] / 1e6:.1f} MB", markup=False, soft_wrap=True)
    return made
