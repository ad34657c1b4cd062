"""Options that several verbs have, with one name and one help each."""

from __future__ import annotations

from typing import Annotated

import typer


def complete_loss(incomplete: str) -> list[str]:
    """The losses whose names begin with what is typed, for the completion of a shell."""
    from similis.registry import losses

    return [entry.name for entry in losses if entry.name.startswith(incomplete)]


Settings = Annotated[
    list[str] | None, typer.Option("--set", help="key.path=value, in YAML; may be given often.", metavar="KEY=VALUE")
]
AllowCounts = Annotated[bool, typer.Option("--allow-counts", help="Accept other counts than the official.")]
Root = Annotated[str | None, typer.Option(help="Folder of the known data sets. [SIMILIS_DATA]")]
Weights = Annotated[str, typer.Option(help="Of a network by name: pretrained, a file, or none.")]
Size = Annotated[int | None, typer.Option(help="Pixels of a side, for a network by name. [its own]")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps, xpu, ...")]
KeepTrained = Annotated[bool, typer.Option("--keep-trained", help="Measure classes that trained the model, too.")]
