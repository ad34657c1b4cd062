"""``similis cluster FOLDER --model NAME|RUN``: photos without labels into clusters, without a number of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import Device, Model, Size, Weights
from similis.cli.screen import print_lines


def cluster(
    *,
    folder: Annotated[Path, typer.Argument(help="A folder of photos, at any depth.")],
    model: Model,
    out: Annotated[Path, typer.Option(help="Where clusters go; later photos join them.")] = Path("clusters"),
    resolution: Annotated[float, typer.Option(help="Higher gives more, smaller clusters.")] = 5.0,
    folders: Annotated[bool, typer.Option("--folders", help="Copy the photos into a folder for each cluster.")] = False,
    weights: Weights = "pretrained",
    size: Size = None,
    pictures: Annotated[bool, typer.Option(help="Draw a contact sheet.")] = True,
    device: Device = "auto",
) -> Result:
    """Cluster photos by similarity, without labels and without a number of clusters."""
    from similis.model.clusters import cluster_folder, copy_clusters
    from similis.model.load import ModelChoice

    opened = ModelChoice(model, weights, size, device).open()
    found = cluster_folder(opened, folder, out, resolution, pictures=pictures)
    if folders:
        copy_clusters(found, folder, out)
    print_lines(f"{found.summary()}, {found.new} photos new; listed in {out}")
    clusters = len(found.sizes)
    return {"photos": len(found.paths), "new": found.new, "clusters": clusters, "alone": found.alone, "out": out}
