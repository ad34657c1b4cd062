"""The page of the keys of a run specification, from its schema."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel

from docs.generator.losses import table
from similis.run.spec import RunSpec

INTRO = """# Run specification

Everything that determines the numbers of a run is in one validated object. Write it as YAML for `similis train
run.yaml`, pass it as a mapping to `similis.train`, or set single keys with `--set training.lr=0.001`. `similis train
--template yaml` prints a file to begin with, and the [JSON schema](schema/run.json) lets your editor complete its
keys. A wrong key raises an error that names the nearest right one.
"""


def specification_page() -> str:
    """One table for each part."""
    parts = [INTRO]
    for name, field in RunSpec.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            parts += [f"## {name}\n", f"{field.annotation.__doc__}\n", keys_table(name, field.annotation)]
    return "\n".join([*parts, "## seed\n", "`seed` (0): of the weights, the batches and the draws.\n"])


def keys_table(place: str, part: type[BaseModel]) -> str:
    """Key, values, default and meaning of every field."""
    rows = []
    for name, field in part.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            rows += [
                [f"`{name}.{key}`", values_of(each.annotation), shown(each.default), each.description or ""]
                for key, each in kind.model_fields.items()
            ]
            continue
        default = "required" if field.is_required() else shown(field.default)
        rows.append([f"`{name}`", values_of(kind), default, field.description or ""])
    return table([f"key of `{place}`", "values", "default", "meaning"], rows)


def values_of(kind: Any) -> str:
    """The choices of a field, or its type."""
    inner = get_args(kind)
    literal = [value for value in inner if isinstance(value, str | int)] or [
        value for each in inner for value in get_args(each) if isinstance(value, str)
    ]
    if literal:
        return ", ".join(f"`{value}`" for value in literal)
    words = {"str": "text", "float": "number", "int": "whole number", "bool": "true, false", "NoneType": "null"}
    kinds = inner if "|" in str(kind) else (kind,)
    found = dict.fromkeys(words.get(getattr(each, "__name__", ""), "") for each in kinds)
    return " or ".join(word for word in found if word) or ("list" if "tuple" in str(kind) else "mapping")


def shown(value: Any) -> str:
    """A default as YAML writes it."""
    plain = {None: "null", True: "true", False: "false"}
    return f"`{plain[value] if value is None or isinstance(value, bool) else list(value) if value == () else value}`"
