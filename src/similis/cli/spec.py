"""``similis spec schema | example``: what a specification may hold, and one to begin with."""

from __future__ import annotations

import typer


def schema() -> None:
    """Print the JSON schema of a specification, for editors."""
    import json

    from similis.run.spec import schema as made

    typer.echo(json.dumps(made(), indent=2, sort_keys=True))


def example() -> None:
    """Print a specification with every key, its default and its meaning, to be saved as run.yaml."""
    typer.echo(written_example(), nl=False)


def written_example() -> str:
    """The specification as YAML with comments, from the fields themselves."""
    import json

    from similis.run.spec import Part, RunSpec

    lines = ["# similis train run.yaml"]
    for name, field in RunSpec.model_fields.items():
        part = field.annotation
        if not (isinstance(part, type) and issubclass(part, Part)):
            lines.append(f"{name}: {json.dumps(field.default)}")
            continue
        lines.append(f"{name}:  # {(part.__doc__ or '').strip()}")
        for key, inner in part.model_fields.items():
            value = "photos/" if inner.is_required() else inner.default
            words = f"  # {inner.description}" if inner.description else ""
            lines.append(f"  {key}: {json.dumps(value)}{words}")
    return "\n".join(lines) + "\n"
