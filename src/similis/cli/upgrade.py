"""``similis upgrade BUNDLE --model RUN``: a served collection moves to another model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import Device, Root
from similis.cli.screen import print_lines
from similis.values import UserError


def upgrade(
    *,
    collection: Annotated[Path, typer.Argument(help="The bundle that `similis serve` serves.")],
    model: Annotated[Path | None, typer.Option(help="Run or saved model to move to.")] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Change nothing: say what the new model gives.")] = False,
    back: Annotated[bool, typer.Option("--back", help="Return to the model before.")] = False,
    images: Annotated[str | None, typer.Option(help="Images, found by contents. [those of the new run]")] = None,
    sample: Annotated[int, typer.Option(help="Items to embed for an estimate.", min=100)] = 4000,
    store: Annotated[Path | None, typer.Option(help="File of the collection. [COLLECTION/collection.sqlite]")] = None,
    root: Root = None,
    device: Device = "auto",
) -> Result:
    """Move a collection to another model while it is served, or estimate first what that would give."""
    from similis.cli.upgrade_report import estimate_values, show_estimate
    from similis.model.bundle_files import STORE
    from similis.serving.upgrade import open_images, upgrade_collection
    from similis.serving.upgrade_estimate import estimate_upgrade

    if (model is None) != back or (estimate and back):
        raise UserError("give --model RUN to move to it, with --estimate to ask first, or --back to return")
    file = collection / STORE if store is None else store
    data = open_images(model, images, root)
    if estimate:
        assert model is not None
        found = estimate_upgrade(collection, model, file=file, data=data, sample=sample, device=device)
        show_estimate(found)
        return estimate_values(found)
    done = upgrade_collection(collection, model, file=file, data=data, device=device, on_items=show_items)
    print_lines(
        f"{done.items:,} items of {collection} are in the space of the model {done.model_hash[:12]}; "
        f"{done.embedded:,} were embedded now"
    )
    if done.mapped:
        print_lines(f"{done.mapped:,} have no image here: their vectors are mapped from the model {done.previous[:12]}")
    print_lines(f"back        similis upgrade {collection} --back")
    return done._asdict()


def show_items(done: int, total: int) -> None:
    """So many items are done."""
    print_lines(f"{done:,} of {total:,} items")
