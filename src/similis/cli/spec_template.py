"""A specification to begin with, for ``similis train --template``: every key with its default, or the schema.

The example is made from the fields themselves, so that it cannot lag behind them.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

Template = Literal["yaml", "schema"]


def print_template(kind: Template | None) -> None:
    """Print the template and stop, if one is wanted."""
    if kind is None:
        return
    from similis.run.spec import schema

    text = example_text() if kind == "yaml" else json.dumps(schema(), indent=2, sort_keys=True) + "\n"
    typer.echo(text, nl=False)
    raise typer.Exit


PrintTemplate = Annotated[
    Template | None,
    typer.Option(help="Print a run.yaml to begin with, or its JSON schema.", is_eager=True, callback=print_template),
]


def example_text() -> str:
    """The specification as YAML: each key with its default and its meaning, the keys of a part below its own."""
    from similis.run.spec import spec_fields
    from similis.run.training_spec import Part

    lines = ["# similis train run.yaml"]
    for dotted, field in spec_fields().items():
        part, value, words = field.annotation, "photos/" if field.is_required() else field.default, field.description
        line = f"{'  ' * dotted.count('.')}{dotted.rpartition('.')[2]}:"
        if isinstance(part, type) and issubclass(part, Part):
            lines.append(f"{line}  # {(part.__doc__ or '').strip()}")
        else:
            lines.append(f"{line} {json.dumps(value)}" + (f"  # {words}" if words else ""))
    return "\n".join(lines) + "\n"
