"""``similis train SOURCE``: from photos, or a specification, to a trained model with its numbers and pictures."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from similis.cli.json_output import INTERRUPTED, Result
from similis.cli.options import AllowCounts, Device, Root, Settings, complete_loss
from similis.cli.spec_template import Template, print_template
from similis.values import UserError

if TYPE_CHECKING:
    from similis.run.machine import Machine
    from similis.run.result import RunResult
    from similis.run.spec import RunSpec


def train(
    *,
    source: Annotated[
        str, typer.Argument(help="Folder of class folders, .zip, .csv, .parquet, a known name, or run.yaml.")
    ],
    loss: Annotated[
        str | None,
        typer.Option(help="A loss; the verb `losses` lists them. [proxy_anchor]", autocompletion=complete_loss),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the images; 0 only evaluates. [10]")] = None,
    size: Annotated[int | None, typer.Option(help="Pixels of a side. [the network's own, or what fits]")] = None,
    dim: Annotated[int | None, typer.Option(help="Embedding size. [512]")] = None,
    backbone: Annotated[
        str | None, typer.Option(help="small_conv, googlenet, ... or a timm name. [tf_efficientnet_lite0]")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="pretrained, a file, or none. [pretrained]")] = None,
    batch: Annotated[int | None, typer.Option(help="Images in a batch. [100, or what fits]")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of the network. [0.0001]")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run. [0]")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="careful: fine-tune without a head, and keep what validation says helps.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="fixed-validation, cross-validation, default. [fixed-validation]")
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option(help="CSV file of images that do not train, from `data check --model`.")
    ] = None,
    set_: Settings = None,
    allow_counts: AllowCounts = False,
    runs: Annotated[Path, typer.Option(help="Folder of all runs.")] = Path("runs"),
    all_classes: Annotated[
        bool, typer.Option("--all-classes", help="Train on every class, for production: nothing is left to test.")
    ] = False,
    loaders: Annotated[int | None, typer.Option(help="Processes that load images. [what fits]", min=0)] = None,
    cache_gb: Annotated[
        float | None, typer.Option(help="Memory for decoded images. [what fits, at most 2]", min=0)
    ] = None,
    root: Root = None,
    verify: Annotated[bool, typer.Option("--verify", help="Hash every image again, changed or not.")] = False,
    pictures: Annotated[bool, typer.Option(help="Draw curves, contact sheet and map.")] = True,
    device: Device = "auto",
    ranks: Annotated[int, typer.Option(help="Processes of this machine that share each batch.")] = 1,
    divide_classes: Annotated[
        bool, typer.Option("--divide-classes", help="Each process owns a share of the class vectors.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Workers of Ray that share each batch.")] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster, or auto. [a new one, here]")] = None,
    cpus: Annotated[float, typer.Option(help="Processors of each worker.")] = 1.0,
    gpus: Annotated[float, typer.Option(help="Graphics cards of each worker.")] = 0.0,
    template: Annotated[  # noqa: ARG001 - printed as soon as it is read
        Template | None,
        typer.Option(
            help="Print a run.yaml to begin with, or its JSON schema.", is_eager=True, callback=print_template
        ),
    ] = None,
) -> Result:
    """Train a model on your images and say how well it finds unseen classes; run it again to see the result again."""
    from similis.cli.asked_spec import ALL_CLASSES, asked_keys, asked_spec, recipe_keys
    from similis.cli.progress import Display
    from similis.cli.screen import console
    from similis.cli.train_report import report
    from similis.engine.ray import Share
    from similis.run.distributed import run_on_ranks, run_on_ray
    from similis.run.machine import Machine

    check_place(ranks, workers, address)
    machine = Machine(root=runs, device=device, data_root=root, verify=verify, divide_classes=divide_classes)
    named = {
        "objective.loss": loss, "training.epochs": epochs, "model.image_size": size, "model.dim": dim,
        "model.backbone": backbone, "model.weights": weights, "training.batch_size": batch, "training.lr": lr,
        "seed": seed, "data.protocol": protocol, "data.allow_counts": allow_counts or None,
        "data.exclude": None if exclude is None else str(exclude),
    }  # fmt: skip
    keys = recipe_keys(recipe) | asked_keys(named, set_ or ()) | (ALL_CLASSES if all_classes else {})
    try:
        if workers is None:
            spec, machine = prepare(source, keys, machine, loaders, cache_gb)
        else:  # the driver of Ray may have other devices than its workers
            spec, machine = asked_spec(source, keys, machine), replace(machine, workers=loaders or 0)
        display = partial(Display, to_stderr=sys.stdout is sys.stderr)  # as with --json
        if workers is None:
            result = run_on_ranks(spec, machine, display, ranks=ranks)
        else:
            share = Share(cpus, gpus)
            result = run_on_ray(spec, machine, display, workers=workers, address=address, share=share)
    except KeyboardInterrupt:
        console().print(
            "\nstopped; the same command goes on from the last checkpoint, or begins again if there is none yet",
            markup=False,
        )
        raise typer.Exit(INTERRUPTED) from None
    report(result)
    if pictures:
        draw(result, machine)
    return {"folder": result.folder, **result.to_json()}


def prepare(
    source: str, keys: Mapping[str, Any], machine: Machine, loaders: int | None, cache_gb: float | None
) -> tuple[RunSpec, Machine]:
    """The specification and the machine with defaults that fit, and the plan on the screen unless the run is done."""
    from similis.cli.asked_spec import asked_spec
    from similis.cli.screen import console
    from similis.cli.train_report import show_plan
    from similis.engine.device import describe_device
    from similis.run.defaults import fit_defaults, fit_machine
    from similis.run.parts import open_source
    from similis.run.run import find_result

    say = partial(console().print, markup=False, soft_wrap=True)
    say(f"device      {describe_device(machine.chosen)}")
    say(f"reading     {ascii(source)[1:-1] if not source.isprintable() else source}")  # many photos take a while
    spec = asked_spec(source, keys, machine, fit_defaults)
    data = open_source(spec, machine)
    machine = fit_machine(machine, spec, len(data.manifest), loaders=loaders, cache_gb=cache_gb)
    if find_result(spec, machine, data) is None:
        say("planning    a trial step on a few images")
        show_plan(spec, machine, data)
    return spec, machine


def check_place(ranks: int, workers: int | None, address: str | None) -> None:
    """Refuse contradictions: processes of this machine, or workers of Ray, and an address of Ray only with them."""
    if ranks < 1 or (workers is not None and workers < 1):
        wrong = f"--ranks {ranks}" if ranks < 1 else f"--workers {workers}"
        raise UserError(f"{wrong} given; at least one process has to work")
    if ranks > 1 and workers is not None:
        raise UserError("--ranks are processes of this machine and --workers those of Ray; give one of the two")
    if address is not None and workers is None:
        raise UserError(f"--address {address} is that of a Ray cluster; say how many --workers it gives")


def draw(result: RunResult, machine: Machine) -> None:
    """The pictures, unless they are there; without matplotlib, one line says what brings them."""
    from similis.cli.screen import console
    from similis.model.pictures import draw_pictures
    from similis.values import MissingExtraError

    try:
        made = draw_pictures(result, machine)
    except MissingExtraError as missing:
        console().print(f"no pictures: {missing}", markup=False)
        return
    console().print(f"pictures    {', '.join(path.name for path in made)}", markup=False, soft_wrap=True)
