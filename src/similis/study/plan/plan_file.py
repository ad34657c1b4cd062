"""Read and write plans; errors name the setting that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from similis.registry import unknown
from similis.run.spec import explain_validation, file_values
from similis.study.plan.contestant import Contestant
from similis.study.plan.equal_terms import held_field
from similis.study.plan.schema import Plan
from similis.values import UserError


def parse_plan(values: Mapping[str, Any]) -> Plan:
    """A plan from plain values; an error names the setting that is wrong.

    Example:
        >>> plan = parse_plan({"name": "small", "sampler": "balanced", "contestants": ["triplet"],
        ...                    "terms": {"data": {"source": "synthetic"}}})
        >>> plan.repetitions, plan.contestants[0].start
        (12, 'paper')
        >>> parse_plan({"name": "x", "sampler": "own", "terms": {"data": {"source": "synthetic"}},
        ...             "contestants": ["triplet", {"loss": "margin", "pooling": "gem"}]})
        Traceback (most recent call last):
        ...
        similis.values.UserError: contestant margin sets model.pooling, which is held equal for all; ...
    """
    check_contestants(values)
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        raise UserError("; ".join(explain_error(item) for item in error.errors())) from None


def check_contestants(values: Mapping[str, Any]) -> None:
    """Raise if a contestant sets something that is held equal for all."""
    for each in values.get("contestants") or ():
        for key, value in each.items() if isinstance(each, Mapping) else ():
            if key in Contestant.model_fields:
                continue
            for name in [f"{key}.{inner}" for inner in value] if isinstance(value, Mapping) else [str(key)]:
                field = held_field(name)
                if field is not None:
                    raise UserError(
                        f"contestant {each.get('name') or each.get('loss')} sets {field}, which is held equal for all; "
                        "set it once under terms, or for a whole table under arenas"
                    )


def explain_error(item: Mapping[str, Any]) -> str:
    """One sentence about one wrong value."""
    place = ".".join(str(key) for key in item["loc"])
    if item["type"] == "extra_forbidden":
        return unknown("key", place, known_keys(item["loc"]))
    if item["type"] == "value_error":
        return f"{place or 'plan'}: {item['ctx']['error']}"
    return explain_validation(item)


def known_keys(place: tuple[Any, ...]) -> list[str]:
    """Keys that exist beside a wrong one, by their full path."""
    model: type[BaseModel] = Plan
    for key in place[:-1]:  # numbers of contestants and names of lengths lead to no part of their own
        field = model.model_fields.get(str(key))
        kinds = () if field is None else (field.annotation, *get_args(field.annotation))
        model = next((each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)), model)
    return [".".join([*(str(p) for p in place[:-1]), key]) for key in model.model_fields]


def read_plan(path: Path) -> Plan:
    """A plan from a YAML file."""
    keys, begin = "name, terms and contestants", "write one (see the page on tournaments)"
    return parse_plan(file_values(path, keys=keys, begin=begin))


def plan_text(plan: Plan) -> str:
    """The plan as YAML, every value written out."""
    return yaml.safe_dump(plan.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
