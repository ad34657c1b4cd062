"""``similis losses draw NAME``: what the loss does to a small batch, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def draw(
    *,
    name: Annotated[str, typer.Argument(help="A loss; the verb `losses` lists them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Picture file: png, svg or pdf.")] = Path("forces.png"),
    form: Annotated[str | None, typer.Option(help="A published form of the loss; the first one if left out.")] = None,
) -> None:
    """Draw the forces of a loss on a small batch."""
    from similis.figures.force_plot import save_forces

    typer.echo(str(save_forces(name, output, form=form)))
