"""Equal terms: what a comparison holds equal, and an error for results that differ in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from similis.run.spec import spec_fields
from similis.values import UserError

# What may differ. Everything else is held equal, so a setting that is added to runs is held equal from its first day.
ALLOWED = frozenset(
    {
        "objective.loss",
        "objective.preset",
        "objective.options",
        "objective.miner",
        "training.loss_multiplier",  # searched under the same budget
        "data.fold",  # every contestant goes through all folds
        "data.validation_seed",  # drawn for each repetition
        "seed",  # likewise
    }
)
FACTS = ("data", "split", "weights", "preprocessing", "device", "numerics")
_LEAVES = {"objective.options", "model.options"}


class UnequalTermsError(UserError):
    """Results under unequal terms cannot share a table."""

    def __init__(self, field: str, first: tuple[str, Any], second: tuple[str, Any]) -> None:
        self.field = field
        super().__init__(
            f"{field} differs: {first[0]} has {first[1]!r}, {second[0]} has {second[1]!r}; results under unequal terms "
            "are not placed in one table: run them again under one plan"
        )


def flatten_spec(spec: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of a specification."""
    for key, value in spec.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in _LEAVES:
            yield from flatten_spec(value, f"{name}.")
        else:
            yield name, value


def held_terms(
    spec: Mapping[str, Any], facts: Mapping[str, Any], around: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Everything about a result that must be equal for all results of a table.

    Args:
        spec: the plain values of its RunSpec.
        facts: what the run found out: fingerprints of data and split, hash of the weights, version of the numerics.
        around: what the tournament did around the run: budget and rule of the search, seeds, threads.
    """
    held = {name: value for name, value in flatten_spec(spec) if name not in ALLOWED}
    # Weights that are drawn by the seed have a hash for each seed; the rule that draws them is in the specification.
    drawn = held.get("model.weights") is None
    # A split has a fingerprint for each fold and each draw of the validation classes; the rule that makes them is in
    # the specification, and the test classes of all results are compared one by one.
    moves = held.get("data.protocol") == "cross-validation" or spec["data"].get("validation_seed") is not None
    unheld = ({"weights"} if drawn else set()) | ({"split"} if moves else set())
    held |= {f"facts.{name}": facts.get(name) for name in FACTS if name not in unheld}
    held |= dict(flatten_spec(around or {}))
    return held


def declared_differences(record: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which a result differs from its terms because its plan declares so.

    Example:
        >>> spec = {"training": {"sampler": "mined", "epochs": 3}, "seed": 1}
        >>> declared_differences({"spec": spec, "held": {"training.sampler": None, "training.epochs": 3}})
        {'training.sampler': 'mined'}
    """
    held = record["held"]
    chosen = {"training.lr"}  # searched, and shown among the settings
    spec = flatten_spec(record["spec"])
    return {name: value for name, value in spec if name in held and name not in chosen and held[name] != value}


def equal_terms(results: Sequence[tuple[str, Mapping[str, Any]]]) -> Mapping[str, Any]:
    """The held terms that (name, held terms) of all results have in common; raises for the first field that differs.

    Example:
        >>> equal_terms([("a", {"model.dim": 64}), ("b", {"model.dim": 128})])
        Traceback (most recent call last):
        ...
        similis.study.plan.equal_terms.UnequalTermsError: model.dim differs: a has 64, b has 128; ...
    """
    name, first = results[0]
    for other, held in results[1:]:
        for field in sorted(first.keys() | held.keys()):
            if first.get(field) != held.get(field):
                raise UnequalTermsError(field, (name, first.get(field)), (other, held.get(field)))
    return first


def held_field(name: str) -> str | None:
    """The dotted name of a held setting, given with or without its section; None for any other name.

    Example:
        >>> held_field("pooling"), held_field("model.dim"), held_field("margin")
        ('model.pooling', 'model.dim', None)
    """
    held = [field for field in spec_fields() if "." in field and field not in ALLOWED]
    return next((field for field in held if name in (field, field.partition(".")[2])), None)
