"""``similis cluster FOLDER --model NAME|RUN``: photos without labels into clusters, without a number of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import Device, Root, Size, Weights


def cluster(
    *,
    folder: Annotated[Path, typer.Argument(help="A folder of photos, at any depth.")],
    model: Annotated[str, typer.Option(help="A run's folder, a saved model, or a network's name.")],
    out: Annotated[Path, typer.Option(help="Where clusters go; photos that come later join those there.")] = Path(
        "clusters"
    ),
    labelled: Annotated[str | None, typer.Option(help="Labelled photos of similar things, for the threshold.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Mean similarity from which clusters merge.")] = None,
    folders: Annotated[bool, typer.Option("--folders", help="Copy the photos into a folder for each cluster.")] = False,
    weights: Weights = "pretrained",
    size: Size = None,
    pictures: Annotated[bool, typer.Option(help="Draw a contact sheet.")] = True,
    root: Root = None,
    device: Device = "auto",
) -> Result:
    """Cluster photos by how alike they are; say which clusters are doubtful."""
    from similis.cli.screen import console
    from similis.data.open_data import open_data
    from similis.run.clusters import cluster_folder, cluster_threshold, copy_clusters
    from similis.run.load import ModelChoice

    opened = ModelChoice(model, weights, size, device).open()
    known = None if labelled is None else open_data(labelled, root=root)
    value, origin = cluster_threshold(opened, threshold, known)
    found = cluster_folder(opened, folder, out, value, pictures=pictures)
    if folders:
        copy_clusters(found, folder, out)
    sizes = found.assignment.bincount()
    alone, doubted = int((sizes == 1).sum()), int(found.doubted.sum())
    lines = [
        f"{len(found.paths)} photos ({found.new} new) in {len(sizes)} clusters, {alone} of them of one photo",
        f"threshold {value:.3f}, {origin}; {doubted} clusters are doubtful, marked in {out}",
    ]
    if found.approximate:
        lines.append(f"{found.approximate} photos are too alike for exact linkage; raise the threshold to be sure")
    console().print("\n".join(lines), markup=False, soft_wrap=True)
    counts = {"photos": len(found.paths), "new": found.new, "clusters": len(sizes), "alone": alone, "doubted": doubted}
    return {**counts, "threshold": value, "origin": origin, "out": out}
