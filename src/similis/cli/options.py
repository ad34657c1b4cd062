"""Options that several verbs have, with one name and one help each."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from similis.registry import losses


def complete_loss(incomplete: str) -> list[str]:
    """The losses whose names begin with what is typed, for the completion of a shell."""
    return [entry.name for entry in losses if entry.name.startswith(incomplete)]


def state_defaults(text: str) -> str:
    """A help text with the default of a specification's key wherever the key stands in braces.

    Example:
        >>> state_defaults("Embedding size. [{model.dim}]")
        'Embedding size. [512]'
    """
    from similis.run.spec import spec_fields

    return re.sub(r"\{([a-z_.]+)\}", lambda found: str(spec_fields()[found[1]].default), text)


Source = Annotated[str, typer.Argument(help="Folder of class folders, .zip, .csv, .parquet, URL or a known name.")]
RunSource = Annotated[str, typer.Argument(help="Class folders, .zip, .csv, .parquet, a known name, or run.yaml.")]
Model = Annotated[str, typer.Option(help="A run's folder, a saved model or bundle, or a network's name.")]
# Defaults in braces are those of the specification, see state_defaults.
Loss = Annotated[
    str | None,
    typer.Option(help="A loss; `similis losses` lists them. [{objective.loss}]", autocompletion=complete_loss),
]
Epochs = Annotated[int | None, typer.Option(help="Passes over the images; 0 only evaluates. [{training.epochs}]")]
Dim = Annotated[int | None, typer.Option(help="Embedding size. [{model.dim}]")]
Backbone = Annotated[str | None, typer.Option(help="small_conv, googlenet, ... or a timm name. [{model.backbone}]")]
StartWeights = Annotated[str | None, typer.Option(help="pretrained, a file, or none. [{model.weights}]")]
Pixels = Annotated[int | None, typer.Option(help="Pixels of a side. [the network's own, or what fits]")]
BatchSize = Annotated[int | None, typer.Option(help="Images in a batch. [{training.batch_size}, or what fits]")]
Protocol = Annotated[str | None, typer.Option(help="fixed-validation, cross-validation, default. [{data.protocol}]")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Setting key.path=value; may be given often.", metavar="KEY=VALUE")
]
AllowCounts = Annotated[bool, typer.Option("--allow-counts", help="Accept other counts than the official ones.")]
Verify = Annotated[bool, typer.Option("--verify", help="Hash every image again, changed or not.")]
Root = Annotated[str | None, typer.Option(help="Folder of the known data sets. [SIMILIS_DATA]")]
Weights = Annotated[str, typer.Option(help="Weights of a network by name: pretrained, a file, or none.")]
Size = Annotated[int | None, typer.Option(help="Pixels of a side, for a network by name. [its own]")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps, xpu, ...")]
KeepTrained = Annotated[bool, typer.Option("--keep-trained", help="Measure classes that trained the model, too.")]
Loaders = Annotated[int, typer.Option(help="Processes that load images.", min=0)]
OnRay = Annotated[bool, typer.Option("--ray", help="Work as tasks of Ray.")]
Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster, or auto. [a new one, here]")]
Cpus = Annotated[float, typer.Option(help="Processors of each worker on Ray.")]
Gpus = Annotated[float, typer.Option(help="Graphics cards of each worker on Ray, for example 0.25.")]
