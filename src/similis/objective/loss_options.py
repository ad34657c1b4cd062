"""Options and presets of a loss, checked before anything is built."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from torch import Tensor

from similis.objective.mining import resolve_miner
from similis.registry import Family, LossEntry, Preset, check_known, losses, unknown
from similis.values import Options, OptionValue, UserError


def list_losses(family: str | None = None) -> list[str]:
    """Names of the registered losses, those of plug-ins included.

    Args:
        family: ``pair``, ``triplet``, ``proxy`` or ``classification``; None for all.
    """
    if family is not None and family not in get_args(Family):
        raise UserError(unknown("family of losses", family, get_args(Family)))
    return [entry.name for entry in losses if family in (None, entry.family)]


def check_settings(name: str, options: Options, *, preset: str | None = None, miner: str | None = None) -> None:
    """Raise if there is no such loss, or if it has no such option, preset or miner.

    Example:
        >>> check_settings("triplet", {"margin": 0.2}, preset="paper", miner="semi_hard")
    """
    entry = losses.get(name)
    get_preset(entry, preset)
    check_options(entry, options)
    resolve_miner(entry, miner)


def check_options(entry: LossEntry, options: Options, beside: Sequence[str] = ()) -> dict[str, OptionValue]:
    """Options as given; raises for one that the loss does not have, and for a value that its type excludes."""
    hints = {key: hint for make in [entry.function, *entry.learns.values()] for key, hint in hints_of(make).items()}
    for key, value in options.items():
        if key not in entry.options:
            raise UserError(unknown(f"option of {entry.name}", key, {*entry.options, *beside}))
        if key in hints and not fits(value, hints[key]):
            allowed = " or ".join(describe_hint(hints[key]))
            raise UserError(
                f"option {key} of {entry.name} is {value!r}; give {allowed} (default: {entry.options[key]!r})"
            )
    return dict(options)


def hints_of(function: Any) -> dict[str, Any]:
    """The types of a function's arguments, as far as they can be told: a plug-in need not state them."""
    try:
        return get_type_hints(function if hasattr(function, "__code__") else type(function).__call__)
    except (NameError, TypeError):
        return {}


def choices(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the one type that there is."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type; types that options do not have are not looked at.

    Example:
        >>> fits(1, float), fits("wide", float | None), fits("mean", Literal["mean", "sum"]), fits("yes", bool)
        (True, False, True, False)
    """
    for one in choices(hint):
        if get_origin(one) is Literal:
            found = value in get_args(one)
        elif one in (int, float):
            found = isinstance(value, Tensor) or (isinstance(value, Real) and not isinstance(value, bool))
        elif one in (bool, str, type(None)):
            found = isinstance(value, one)
        else:
            return True
        if found:
            return True
    return False


def describe_hint(hint: Any) -> list[str]:
    """A type in words, one for each member of a union."""
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "None"}
    found = []
    for one in choices(hint):
        found += [repr(each) for each in get_args(one)] if get_origin(one) is Literal else [words.get(one, str(one))]
    return found


def get_preset(entry: LossEntry, name: str | None) -> Preset | None:
    """The preset of that name, None for None."""
    if name is None:
        return None
    check_known(f"preset of {entry.name}", name, entry.presets)
    return entry.presets[name]
