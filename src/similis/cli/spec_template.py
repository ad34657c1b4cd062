"""A specification to begin with, for ``similis train --template``: every key with its default, or the schema.

The example is made from the fields themselves, so that it cannot lag behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from similis.run.training_spec import Part

EXAMPLE = "photos/"  # the source of the example


class Template(StrEnum):
    """What ``--template`` prints."""

    YAML = "yaml"
    SCHEMA = "schema"


def print_template(kind: Template | None) -> None:
    """Print the template and stop, if one is wanted."""
    if kind is None:
        return
    import json

    from similis.run.spec import schema

    text = example_text() if kind is Template.YAML else json.dumps(schema(), indent=2, sort_keys=True) + "\n"
    typer.echo(text, nl=False)
    raise typer.Exit


def example_text() -> str:
    """The specification as YAML with comments."""
    from similis.run.spec import RunSpec

    return "\n".join(["# similis train run.yaml", *example_lines(RunSpec)]) + "\n"


def example_lines(model: type[Part], indent: str = "") -> Iterator[str]:
    """One line for each key with its default and its meaning; the keys of a part below its own."""
    import json

    from similis.run.training_spec import Part

    for key, field in model.model_fields.items():
        part = field.annotation
        if isinstance(part, type) and issubclass(part, Part):
            yield f"{indent}{key}:  # {(part.__doc__ or '').strip()}"
            yield from example_lines(part, f"{indent}  ")
            continue
        value = EXAMPLE if field.is_required() else field.default
        words = f"  # {field.description}" if field.description else ""
        yield f"{indent}{key}: {json.dumps(value)}{words}"
