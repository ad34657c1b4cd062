"""``similis train SOURCE``: from photos, or a specification, to a trained model with its numbers and pictures."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from similis.cli import options
from similis.cli.json_output import INTERRUPTED, Result
from similis.cli.screen import print_lines
from similis.cli.spec_template import PrintTemplate
from similis.values import MissingExtraError, UserError

if TYPE_CHECKING:
    from similis.run.distributed import OpenDisplay
    from similis.run.prepared import Prepared
    from similis.run.result import RunResult


def train(
    *,
    source: options.RunSource,
    loss: options.Loss = None,
    epochs: options.Epochs = None,
    size: options.Pixels = None,
    dim: options.Dim = None,
    backbone: options.Backbone = None,
    weights: options.StartWeights = None,
    from_: Annotated[Path | None, typer.Option("--from", help="Run or saved model to go on from.")] = None,
    batch: options.BatchSize = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of the network. [{training.lr}]")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run. [{seed}]")] = None,
    head: Annotated[str | None, typer.Option(help="trained, or in closed form: whitening, pca, lda.")] = None,
    recipe: Annotated[str | None, typer.Option(help="careful: no head, and as much training as helps.")] = None,
    protocol: options.Protocol = None,
    exclude: Annotated[
        Path | None, typer.Option(help="Leave the images of this CSV file out; `similis data check` writes one.")
    ] = None,
    set_: options.Settings = None,
    allow_counts: options.AllowCounts = False,
    runs: Annotated[Path, typer.Option(help="Folder of all runs.")] = Path("runs"),
    all_classes: Annotated[
        bool, typer.Option("--all-classes", help="Train on every class; none is held out to validate or to test.")
    ] = False,
    loaders: Annotated[int | None, typer.Option(help="Processes that load images. [what fits]", min=0)] = None,
    cache_gb: Annotated[float | None, typer.Option(help="GiB of decoded images. [what fits, up to 2]", min=0)] = None,
    root: options.Root = None,
    verify: options.Verify = False,
    pictures: Annotated[bool, typer.Option(help="Draw the curves and write the report.")] = True,
    photos: Annotated[bool, typer.Option(help="Show photos in the report.")] = True,
    device: options.Device = "auto",
    ranks: Annotated[int, typer.Option(help="Processes of this machine that share each batch.", min=1)] = 1,
    shard_classes: Annotated[bool, typer.Option("--shard-classes", help="Shard proxies over ranks.")] = False,
    workers: Annotated[int | None, typer.Option(help="Workers of Ray that share each batch.", min=1)] = None,
    address: options.Address = None,
    cpus: options.Cpus = 1.0,
    gpus: options.Gpus = 0.0,
    template: PrintTemplate = None,  # noqa: ARG001 - printed as soon as it is read
) -> Result:
    """Train a model and measure it on classes it has not seen. Rerunning the command prints the stored result."""
    from similis.cli.asked_spec import ALL_CLASSES, asked_keys, open_asked, recipe_keys
    from similis.cli.progress import Display
    from similis.cli.train_report import report
    from similis.engine.device import describe_device
    from similis.engine.ray import Share
    from similis.model.finished import start_keys
    from similis.run.distributed import run_on_ray
    from similis.run.fitted_settings import fit_batch, fit_defaults
    from similis.run.machine import Machine
    from similis.run.network import check_weights

    check_place(ranks, workers, address)
    machine = Machine(root=runs, device=device, data_root=root, verify=verify, shard_classes=shard_classes)
    named = {
        "objective.loss": loss, "training.epochs": epochs, "model.image_size": size, "model.dim": dim,
        "model.backbone": backbone, "model.weights": weights, "training.batch_size": batch, "training.lr": lr,
        "seed": seed, "model.head": head, "data.protocol": protocol, "data.allow_counts": allow_counts or None,
        "data.exclude": None if exclude is None else str(exclude),
    }  # fmt: skip
    display = partial(Display, to_stderr=sys.stdout is sys.stderr)  # as with --json
    keys = recipe_keys(recipe) | asked_keys(named, set_ or ()) | (ALL_CLASSES if all_classes else {})
    keys = (start_keys(from_) if from_ is not None else {}) | keys
    try:
        if workers is None:
            shown = source if source.isprintable() else ascii(source)[1:-1]
            print_lines(f"device      {describe_device(machine.chosen)}", f"reading     {shown}")  # takes a while
            run = open_asked(source, keys, machine, fit_defaults, check_weights)
            result = run_here(run, display, ranks, loaders, cache_gb)
        else:  # the driver of Ray may have other devices than its workers
            run = open_asked(source, keys, replace(machine, workers=loaders or 0), fit_batch)
            share = Share(cpus, gpus)
            result = run_on_ray(run.spec, run.machine, display, workers=workers, address=address, share=share)
    except KeyboardInterrupt:
        print_lines(
            "", "stopped; the same command continues from the last checkpoint, or begins again if there is none yet"
        )
        raise typer.Exit(INTERRUPTED) from None
    report(result)
    if pictures:
        draw(result, run, photos=photos)
    return {"folder": result.folder, **result.to_json()}


def run_here(run: Prepared, display: OpenDisplay, ranks: int, loaders: int | None, cache_gb: float | None) -> RunResult:
    """The stored result of a run, or else its plan on the screen and the run itself, on this machine."""
    from similis.cli.train_report import show_plan
    from similis.run.distributed import run_on_ranks
    from similis.run.fitted_settings import fit_machine
    from similis.run.run import find_result, run_prepared

    done = find_result(run)
    if done is not None:
        return done
    run = fit_machine(run, loaders=loaders, cache_gb=cache_gb)
    if not run.spec.model.keeps_backbone:
        print_lines("planning    a trial step on a few images")
    show_plan(run)
    if ranks > 1:
        return run_on_ranks(run.spec, run.machine, display, ranks=ranks)
    with display() as watch:
        return run_prepared(run, watch)


def check_place(ranks: int, workers: int | None, address: str | None) -> None:
    """Raise on contradictions: ranks of this machine, or workers of Ray, and an address of Ray only with them."""
    if ranks > 1 and workers is not None:
        raise UserError("--ranks are processes of this machine and --workers those of Ray; give one of the two")
    if address is not None and workers is None:
        raise UserError(f"--address {address} is that of a Ray cluster; say how many --workers it gives")


def draw(result: RunResult, run: Prepared, *, photos: bool) -> None:
    """The curves and the report, unless they are there; a line says what brings a part that is not installed."""
    from similis.model.pictures import write_curves
    from similis.run.report import has_report

    try:
        if result.epochs:
            print_lines(f"curves      {write_curves(result)}")
        if result.test:
            path = result.folder / "report.html"
            if not has_report(path, photos=photos and result.facts["preprocessing"] is not None):
                print_lines("drawing     the report")
                path = result.report(run.source.manifest, photos=photos)
            print_lines(f"report      {path}")
    except MissingExtraError as missing:
        print_lines(f"no pictures: {missing}")
