"""From the words of a command to a specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from similis.objective.loss_options import check_settings
from similis.registry import check_known, losses, unknown
from similis.run.machine import Machine
from similis.run.parts import open_manifest
from similis.run.prepared import Prepared, prepare
from similis.run.spec import ModelSpec, ObjectiveSpec, RunSpec, file_values, parse_spec, replace_values
from similis.run.training_spec import TrainingSpec
from similis.values import UserError

FILES = (".yaml", ".yml", ".json")
# What measured best on validation classes: python -m benchmarks.fine_tuning
RECIPES: dict[str, dict[str, Any]] = {
    "careful": {
        "model.dim": None,
        "training.lr": TrainingSpec().lr,
        "training.interpolate": [0, 0.25, 0.5, 0.75, 1],
    },
}
# What --all-classes means: nothing validates and nothing tests.
ALL_CLASSES: dict[str, Any] = {"data.test_share": 0.0, "training.select": "last"}
Fit = Callable[[Prepared, Mapping[str, Any]], Prepared]


def asked_keys(named: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Dotted keys of the specification with the values asked for: named options that are not None, and ``--set``."""
    given = {key: value for key, value in named.items() if value is not None}
    if given.get("model.weights") in ("none", "null"):
        given["model.weights"] = None
    return given | parse_settings(settings)


def recipe_keys(name: str | None) -> dict[str, Any]:
    """Dotted keys of a recipe; options that are asked for come before them.

    Example:
        >>> recipe_keys("careful")["model.dim"] is None
        True
    """
    if name is not None and name not in RECIPES:
        raise UserError(unknown("recipe", name, RECIPES))
    return {} if name is None else RECIPES[name]


def open_asked(
    source: str, keys: Mapping[str, Any], machine: Machine, fit: Fit, check: Callable[[ModelSpec], None] | None = None
) -> Prepared:
    """The run that a command asks for, with its data opened.

    Args:
        source: data, or the file of a specification, which stays as it is.
        keys: dotted keys of what was asked for.
        machine: that it will run on.
        fit: chooses what was not asked for.
        check: of the network's part, after the images are listed and before they are read.
    """
    spec = asked_spec(source, keys)
    if Path(source).suffix in FILES or not spec.training.epochs:
        return prepare(spec, machine)
    manifest = open_manifest(spec, machine, partial(check, spec.model) if check else None)
    return fit(prepare(spec, machine, manifest), keys)


def asked_spec(source: str, keys: Mapping[str, Any]) -> RunSpec:
    """The specification: a file's with the values asked for, or the defaults for a source of images.

    Without a file, a network without published weights starts from the seed, and a network that starts from the seed
    trains its batch norm.
    """
    if Path(source).suffix in FILES:
        return parse_spec(move_loss_options(replace_values(file_values(Path(source)), keys)))
    values = move_loss_options(replace_values({"data": {"source": source}}, keys))
    model = values.setdefault("model", {})
    if model.get("backbone") == "small_conv":
        model.setdefault("weights", None)
    if "weights" in model and model["weights"] is None:
        model.setdefault("freeze_batch_norm", False)
    return parse_spec(values)


SETTING = "--set takes key.path=value, as in training.lr=0.001"


def parse_settings(words: Sequence[str], form: str = SETTING) -> dict[str, Any]:
    """``key.path=value`` words as dotted keys; values are read as YAML.

    Args:
        words: as given.
        form: what they should look like, for the error.

    Example:
        >>> parse_settings(("training.lr=1e-3", "model.weights=null", "objective.nested_sizes=[8, 16]"))
        {'training.lr': 0.001, 'model.weights': None, 'objective.nested_sizes': [8, 16]}
        >>> parse_settings(("data.source=synthetic?classes=3", "training.refit=true"))
        {'data.source': 'synthetic?classes=3', 'training.refit': True}
    """
    found = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key.strip():
            raise UserError(f"{word!r} given; {form}")
        try:
            found[key.strip()] = parse_number(yaml.safe_load(value))
        except yaml.YAMLError:
            raise UserError(f"the value of {word!r} is not YAML; {form}, or put it in quotes") from None
    return found


def parse_number(value: Any) -> Any:
    """A text like ``1e-3``, which YAML 1.1 reads as words for want of a dot, as the number it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def move_loss_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of ``objective`` that are options of its loss, moved to ``objective.options``; wrong ones raise.

    Example:
        >>> move_loss_options({"objective": {"loss": "triplet", "margin": 0.2}})
        {'objective': {'loss': 'triplet', 'options': {'margin': 0.2}}}
    """
    objective = values.get("objective")
    if not isinstance(objective, dict) or not isinstance(objective.get("options", {}), dict):
        return dict(values)
    name = objective.get("loss", ObjectiveSpec().loss)
    fields, known = ObjectiveSpec.model_fields, losses.get(name).options
    rest = {key: value for key, value in objective.items() if key in fields}
    short = {key: value for key, value in objective.items() if key not in fields}
    for key in short:
        check_known("key", f"objective.{key}", [f"objective.{each}" for each in (*fields, *known)])
    options = {**rest.get("options", {}), **short}
    preset, miner = (rest[key] if isinstance(rest.get(key), str) else None for key in ("preset", "miner"))
    check_settings(name, options, preset=preset, miner=miner)  # before a network is built or its weights are fetched
    return {**values, "objective": {**rest, "options": options}} if short else dict(values)
