"""``similis export RUN OUT``: a model with its gallery, thumbnails and card in one folder, ready to be served."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import Device, KeepTrained, Loaders, Root
from similis.cli.screen import print_lines
from similis.values import DataError, UserError


def export(
    *,
    run: Annotated[Path, typer.Argument(help="The folder of a finished run, or of a saved model.")],
    out: Annotated[Path | None, typer.Argument(help="Folder to write; a bundle that is there is replaced.")] = None,
    to: Annotated[str | None, typer.Option(help="Upload to the Hugging Face Hub: hf://owner/name.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Make a new repository public. [private]")] = False,
    with_gallery: Annotated[bool, typer.Option("--with-gallery", help="Include the gallery in the upload.")] = False,
    gallery: Annotated[str | None, typer.Option(help="Data to search in. [the images of the run]")] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write the network as model.onnx too.")] = False,
    keep_trained: KeepTrained = False,
    licence: Annotated[str, typer.Option(help="Licence for the model card.")] = "not stated",
    root: Root = None,
    workers: Loaders = 0,
    device: Device = "auto",
) -> Result:
    """Write a bundle, which `similis.load` reads without the images: model, gallery, thumbnails, card and checksums."""
    from similis.model.export import export_bundle
    from similis.model.hub import create_repository, push_bundle
    from similis.run.machine import Machine

    if to is None and out is None:
        raise UserError("neither OUT nor --to is given; give a folder to write, or --to hf://owner/name")
    if to is None and (public or with_gallery):
        raise UserError("--public and --with-gallery need --to hf://owner/name")
    if to is not None:
        create_repository(to, private=not public, gallery=with_gallery)  # before hours of work
    machine = Machine(device=device, workers=workers, data_root=root)
    place = Path(mkdtemp(prefix="similis-")) if out is None else out
    with ExitStack() as ended:
        if out is None:
            ended.callback(rmtree, place)
        made = export_bundle(
            run, place, machine, gallery=gallery, onnx=onnx, licence=licence,
            keep_trained=keep_trained,
        )  # fmt: skip
        try:
            url = push_bundle(made.bundle, to, private=not public, gallery=with_gallery) if to is not None else None
        except DataError as error:
            ended.pop_all()
            raise DataError(f"{error}; the bundle is kept: similis export {place} --to {to}") from error
    lines = [f"bundle  {out or to}: {made.images:,} images, {made.bytes / 1e6:.1f} MB, model {made.model_hash[:12]}"]
    if made.threshold is None:
        lines.append("note    no threshold: the gallery has too few classes that did not train the model")
    if made.onnx_difference is not None:
        lines.append(f"onnx    largest difference of an embedding from PyTorch's: {made.onnx_difference:.1e}")
    print_lines(*lines, *([] if url is None else [f"hub     {url}"]))
    return {**made._asdict(), "bundle": out, **({} if url is None else {"url": url})}
