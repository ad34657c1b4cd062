"""``similis export RUN OUT``: a model with its gallery, thumbnails and card in one folder, ready to be served."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import Device, KeepTrained, Loaders, Root
from similis.cli.screen import print_lines


def export(
    *,
    run: Annotated[Path, typer.Argument(help="The folder of a finished run, or of a saved model.")],
    out: Annotated[Path, typer.Argument(help="Folder to write; a bundle that is there is replaced.")],
    gallery: Annotated[str | None, typer.Option(help="Data to search in. [the images of the run]")] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write the network as model.onnx too.")] = False,
    precision: Annotated[str | None, typer.Option(help="float32, float16 or int8, on disk. [the model's]")] = None,
    keep_trained: KeepTrained = False,
    licence: Annotated[str, typer.Option(help="Licence for the model card.")] = "not stated",
    root: Root = None,
    workers: Loaders = 0,
    device: Device = "auto",
) -> Result:
    """Write a bundle: a folder that `similis.load` reads without the images, with thumbnails, card and checksums."""
    from similis.model.export import export_bundle
    from similis.run.machine import Machine

    machine = Machine(device=device, workers=workers, data_root=root)
    made = export_bundle(
        run, out, machine, gallery=gallery, precision=precision, onnx=onnx, licence=licence, keep_trained=keep_trained
    )
    lines = [f"bundle  {out}: {made.images:,} images, {made.bytes / 1e6:.1f} MB, model {made.model_hash[:12]}"]
    if made.threshold is None:
        lines.append("note    no threshold: the gallery has too few classes that did not train the model")
    if made.rounding is not None:
        lines.append(f"stored  {made.rounding}")
    if made.onnx_difference is not None:
        lines.append(f"onnx    largest difference of an embedding from PyTorch's: {made.onnx_difference:.1e}")
    print_lines(*lines)
    return made._asdict()
