"""``similis losses [--miners | show | draw]``: what the registry knows."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from similis import registry
from similis.cli.json_output import Result
from similis.cli.options import complete_loss
from similis.cli.screen import console, show_table
from similis.registry import LossEntry, Preset, Range

FAMILIES = ("pair", "triplet", "proxy", "classification")
COLUMNS = ("name", "family", "geometry", "input", "needs", "year")
INPUTS = {"raw": "raw vectors", "unit": "any; put on the unit sphere here", "either": "raw or unit vectors"}
RELATIONS = {
    "none": "labels only",
    "sets": "labels, or a relation matrix read as sets (above 0: positive)",
    "graded": "labels, or a relation matrix with its grades",
}
Name = Annotated[str, typer.Argument(help="A loss; the verb `losses` lists them.", autocompletion=complete_loss)]


def losses(
    *,
    context: typer.Context,
    miners: Annotated[bool, typer.Option("--miners", help="List the miners and what they return instead.")] = False,
) -> Result | None:
    """List the losses by family; see also: show NAME, draw NAME."""
    if context.invoked_subcommand is not None:
        return None
    if miners:
        return list_miners()
    for family in FAMILIES:
        rows = [row(entry) for entry in registry.losses if entry.family == family]
        show_table(f"{family} ({len(rows)})", COLUMNS, rows)
    return {"losses": [dict(zip(COLUMNS, row(entry), strict=True)) for entry in registry.losses]}


def list_miners() -> Result:
    """The table of miners."""
    rows = [(m.name, m.returns, options(m.options) or "-", m.summary, m.paper) for m in registry.miners]
    show_table(f"miners ({len(rows)})", ("name", "returns", "options", "what it picks", "paper"), rows)
    names = ("name", "returns", "options", "summary", "paper")
    return {"miners": [dict(zip(names, each, strict=True)) for each in rows]}


def row(entry: LossEntry) -> tuple[str, ...]:
    """The cells of a loss, in the order of ``COLUMNS``."""
    return entry.name, entry.family, entry.geometry, entry.input, ", ".join(needs(entry)) or "-", year(entry.paper)


def needs(entry: LossEntry) -> list[str]:
    """What a loss needs: proxies or class weights, a miner, batches with several images of each class."""
    wanted = [name.replace("_", " ") for name in entry.learns]
    miners = sorted({preset.miner for preset in entry.presets.values() if preset.miner})
    wanted += [f"miner: {' or '.join(miners)}"] if miners else []
    wanted += ["balanced batches"] if entry.sampler == "balanced" else []
    return wanted + (["raw vectors"] if entry.input == "raw" else [])


def year(paper: str) -> str:
    """The last year that a reference names."""
    found = re.findall(r"\b(?:19|20)\d\d\b", paper)
    return found[-1] if found else "-"


def show(*, name: Name) -> Result:
    """Show formula, paper, forms, defaults, presets and needs of a loss."""
    from similis.figures.formula import formula_of, to_text

    entry = registry.losses.get(name)
    screen = console()
    screen.print(f"{entry.name}: {entry.summary}\n", markup=False)
    for line in (to_text(formula_of(entry.function)) or formula(entry)).splitlines():
        wrapped = textwrap.fill(line, screen.width, initial_indent=" " * 4, subsequent_indent=" " * 6)
        screen.print(wrapped, markup=False)
    screen.print()
    for title, text in facts(entry).items():
        screen.print(f"{title:<12}{text}", markup=False, soft_wrap=True)
    return {"name": entry.name, "summary": entry.summary, "formula": formula(entry), **facts(entry)}


def facts(entry: LossEntry) -> dict[str, str]:
    """Title -> text of every fact, in the order shown."""
    rate = f" at {entry.lr_multiplier:g} times the learning rate of the network"
    return {
        "paper": entry.paper,
        "original": f"{entry.network} (network and embedding size)",
        "family": entry.family,
        "geometry": entry.geometry,
        "input": INPUTS[entry.input],
        "forms": "; ".join(f"{form} ({options(chosen) or 'defaults'})" for form, chosen in entry.forms.items()),
        "defaults": "; ".join(filter(None, (options(entry.options), *meaning_of_none(entry)))) or "no options",
        "presets": "; ".join(preset(key, value) for key, value in entry.presets.items()) or "none",
        "pair weight": entry.weight,
        "needs": ", ".join(needs(entry)) or "nothing beside labels",
        "miner": describe_mining(entry),
        "sampler": f"{entry.sampler} batches",
        "learns": f"{', '.join(entry.learns)}{rate}" if entry.learns else "nothing",
        "relation": RELATIONS[entry.relation],
        "memory": "may use a cross-batch memory" if entry.memory else "no cross-batch memory",
        "cost": f"time {entry.cost.time}; memory {entry.cost.memory}"
        + (f", {entry.cost.tuples} with T mined tuples" if entry.cost.tuples else ""),
        "search": "; ".join(f"{key} {span(value)}" for key, value in entry.space.items()) or "nothing to search",
    }


def formula(entry: LossEntry) -> str:
    """The mathematics of the docstring, as TeX; its description where a table stands for a formula."""
    from similis.figures.formula import description_of, formula_of

    return formula_of(entry.function) or description_of(entry.function)


def meaning_of_none(entry: LossEntry) -> list[str]:
    """What None stands for, as the docstring says it, for each option that is None unless given."""
    unset = "|".join(key for key, value in entry.options.items() if value is None)
    said = re.findall(rf"^ +({unset}): .*?(None for .+?)\.?$", entry.function.__doc__ or "", re.MULTILINE)
    return [f"{key}: {meaning}" for key, meaning in said]


def describe_mining(entry: LossEntry) -> str:
    """Whether the loss chooses tuples by itself, and what it takes of a miner."""
    if not entry.accepts:
        return "takes no mined tuples"
    alone = f"uses all {entry.accepts} unless you name a miner"
    own = "mines by itself (mined=True)" if entry.options.get("mined") else alone
    return f"{own}; takes {entry.accepts} of a miner: similis losses --miners"


def options(values: Mapping[str, object]) -> str:
    """Options as they are written in a call."""
    return ", ".join(f"{key}={value!r}" for key, value in values.items())


def preset(name: str, value: Preset) -> str:
    """A preset in one line: options, source, and what the run must do."""
    parts = [options(value.options) or "defaults", f"from {value.source}"]
    if value.miner:
        parts.append(f"miner {value.miner}")
    if value.lr_multiplier is not None:
        parts.append(f"learning rate x{value.lr_multiplier:g}")
    return f"{name} ({', '.join(parts)})"


def span(value: Range) -> str:
    """A search range in words."""
    grid = f" in steps of {value.step:g}" if value.step else ""
    return f"{value.low:g} to {value.high:g}{grid}{' (log)' if value.log else ''}"


def draw(
    *,
    name: Name,
    output: Annotated[Path, typer.Option("--output", "-o", help="Picture file: png, svg or pdf.")] = Path("forces.png"),
    form: Annotated[str | None, typer.Option(help="A published form of the loss; the first one if left out.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the loss.", metavar="NAME=VALUE")
    ] = None,
) -> Result:
    """Draw the forces of a loss on a small batch."""
    from similis.cli.asked_spec import parse_settings
    from similis.figures.force_plot import save_forces

    chosen = parse_settings(settings or [], "--set takes option=value, as in scale=64")
    file = save_forces(name, output, form=form, settings=chosen)
    typer.echo(str(file))
    return {"file": file}
