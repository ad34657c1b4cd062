"""``similis spec schema | example``: what a specification may hold, and one to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from similis.cli.json_output import Result

if TYPE_CHECKING:
    from similis.run.training_spec import Part

EXAMPLE = "photos/"  # the source of the example


def schema() -> Result:
    """Print the JSON schema of a specification, for editors."""
    import json

    from similis.run.spec import schema as made

    typer.echo(json.dumps(made(), indent=2, sort_keys=True))
    return made()


def example() -> Result:
    """Print a specification with every key, its default and its meaning, to be saved as run.yaml."""
    from similis.run.spec import parse_spec

    typer.echo(example_text(), nl=False)
    return parse_spec({"data": {"source": EXAMPLE}}).model_dump(mode="json")


def example_text() -> str:
    """The specification as YAML with comments, from the fields themselves."""
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
