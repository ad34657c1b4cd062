"""From the words of ``similis compare`` to a plan of two contestants."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from similis.cli.asked_spec import parse_settings
from similis.loss_file import MARK
from similis.registry import check_known, losses
from similis.run.source import source_hash
from similis.run.spec import RunSpec
from similis.study.plan.contestant import closed_form
from similis.study.plan.plan_file import parse_plan
from similis.study.plan.schema import Plan
from similis.training.closed_form import FITS
from similis.values import UserError

FIELDS = ("lr", "loss_multiplier", "preset", "miner", "fixed")  # of a contestant, beside the options of its loss


def comparison_plan(
    spec: RunSpec, words: tuple[str, str], *, fixed: bool, sampler: str, margin: float, search: Mapping[str, Any]
) -> Plan:
    """The plan behind a comparison: the terms of a run, a contestant, and the baseline.

    Args:
        spec: what is held equal; its loss and seed are not used.
        words: contestant and baseline as on the command line.
        fixed: whether nothing is searched.
        sampler: of the plan, unless the specification names one.
        margin: of equivalence, in points.
        search: trials and seed.
    """
    values = spec.model_dump(mode="json", exclude={"objective", "seed"})
    values["data"].pop("fold")
    named = values["training"].pop("sampler")
    contestants = [read_contestant(each, fixed=fixed) for each in words]
    if contestants[0]["name"] == contestants[1]["name"]:
        raise UserError(f"--loss and --against are both {words[0]}; give one of them another option or formula")
    return parse_plan(
        {
            "name": "-".join(str(each["name"]) for each in contestants),
            "terms": values,
            "contestants": contestants,
            "against": contestants[1]["name"],
            "sampler": named or sampler,
            "margin": margin,
            "search": dict(search),
        }
    )


def read_contestant(word: str, *, fixed: bool) -> dict[str, Any]:
    """A contestant from ``NAME``, ``NAME:option=value,option=value`` or ``FILE.py:NAME:option=value``.

    An edited formula has another name, so that no result of the old one is taken for it.

    Example:
        >>> read_contestant("triplet:margin=0.2", fixed=True)
        {'loss': 'triplet', 'fixed': True, 'name': 'triplet.margin0.2', 'options': {'margin': 0.2}}
    """
    if word in FITS:
        return closed_form(word)
    place, mark, rest = word.partition(MARK)
    name, _, options = (rest if mark else word).partition(":")
    loss = f"{place}{MARK}{name}" if mark else name
    entry = losses.get(loss)
    form = f"the options of a loss are name=value, as in {entry.name}:lr=0.001,fixed=true"
    given = parse_settings([each for each in options.split(",") if each], form)
    for key in given:
        check_known(f"option of {entry.name}", key, [*entry.options, *FIELDS])
    words = [entry.name, *([source_hash(losses, loss)[:6]] if mark else [])]
    words += [f"{key}{format_value(value)}" for key, value in given.items()]
    own = {key: value for key, value in given.items() if key not in FIELDS}
    beside = {key: value for key, value in given.items() if key in FIELDS}
    return {"loss": loss, "fixed": fixed, "name": ".".join(words), "options": own} | beside


def layout_loss(words: Sequence[str]) -> str:
    """The loss whose batches fit all contestants: one that wants several images of each class, if there is one.

    Example:
        >>> layout_loss(("proxy_anchor", "triplet:margin=0.2"))
        'triplet'
    """
    named = [str(read_contestant(word, fixed=True)["loss"]) for word in words]
    return next((name for name in named if losses.get(name).sampler == "balanced"), named[0])


def format_value(value: Any) -> str:
    """A value as a part of a name: short, and without a minus.

    Example:
        >>> format_value(15.115451), format_value(1e-5), format_value(True)
        ('15.1155', '1em05', 'True')
    """
    return (f"{value:g}" if isinstance(value, float) else str(value)).replace("-", "m")


def comparison_name(plan: Plan) -> str:
    """The folder of a comparison: its contestants, and a hash of all else that it holds equal."""
    values = plan.model_dump(mode="json", exclude={"repetitions", "contestants"})
    contestants = [each.model_dump(exclude={"loss"}) for each in plan.contestants]
    text = json.dumps([values, contestants], sort_keys=True, default=str)
    return f"{plan.name}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
