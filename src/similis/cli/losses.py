"""``similis losses``: every loss in one table for each family."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from similis.registry import LossEntry

FAMILIES = ("pair", "triplet", "proxy", "classification")
COLUMNS = ("name", "family", "geometry", "input", "needs", "year")


def losses(*, context: typer.Context) -> None:
    """List the losses by family; see also: show NAME, draw NAME."""
    if context.invoked_subcommand is not None:
        return
    from similis.cli.screen import show_table
    from similis.registry import losses as registered

    for family in FAMILIES:
        rows = [row(entry) for entry in registered if entry.family == family]
        if rows:
            show_table(f"{family} ({len(rows)})", COLUMNS, rows)


def row(entry: LossEntry) -> tuple[str, ...]:
    """The cells of a loss, in the order of ``COLUMNS``."""
    return entry.name, entry.family, entry.geometry, entry.input, ", ".join(needs(entry)) or "-", year(entry.paper)


def needs(entry: LossEntry) -> list[str]:
    """What must be around the loss: class vectors, a miner, batches with several images of each class."""
    wanted = [name.replace("_", " ") for name in entry.learns]
    miners = sorted({preset.miner for preset in entry.presets.values() if preset.miner})
    if miners:
        wanted.append("miner: " + " or ".join(miners))
    if entry.sampler == "balanced":
        wanted.append("balanced batches")
    if entry.input == "raw":
        wanted.append("raw vectors")
    return wanted


def year(paper: str) -> str:
    """The last year that a reference names."""
    found = re.findall(r"\b(?:19|20)\d\d\b", paper)
    return found[-1] if found else "-"
