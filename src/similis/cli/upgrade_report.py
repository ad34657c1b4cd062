"""The estimate of an upgrade on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from similis.cli.screen import console, print_lines

if TYPE_CHECKING:
    from similis.retrieval.intervals import Interval
    from similis.serving.upgrade_estimate import Asked


def show_estimate(asked: Asked) -> None:
    """A table, the rate of false accepts, the cost, and one sentence."""
    from similis.retrieval.spaces.estimate import advise

    found, table = asked.found, Table("", "R@1 %", "MAP@R %", box=None)
    for row in (found.old, *found.mapped, found.new):
        table.add_row(row.name, percent(row.recall), percent(row.map_r))
    print_lines(
        f"{asked.sample:,} of {asked.items:,} items embedded by the new model; 95 % intervals for the collection"
    )
    console().print(table)
    rates = found.rates
    print_lines(
        f"threshold   {rates.threshold:.3f} accepts {rates.before:.2%} of different pairs today, {rates.after:.2%} "
        f"with the new model; {rates.keeps:.3f} keeps the rate",
        f"full pass   {asked.hours:.2f} hours on this device, {asked.bytes / 1e6:,.1f} MB of vectors",
        "",
        advise(found),
    )


def percent(value: Interval) -> str:
    """A share with its interval, if it has one.

    Example:
        >>> from similis.retrieval.intervals import Interval
        >>> percent(Interval(0.5, 0.45, 0.55)), percent(Interval(0.5, 0.5, 0.5))
        ('50.0 (45.0 to 55.0)', '50.0')
    """
    spread = f" ({100 * value.low:.1f} to {100 * value.high:.1f})" if value.low < value.high else ""
    return f"{100 * value.value:.1f}{spread}"


def estimate_values(asked: Asked) -> dict[str, Any]:
    """The same for ``--json``."""
    from similis.retrieval.spaces.estimate import advise

    found = asked.found
    rows = [
        {"name": row.name, "recall@1": row.recall, "map@r": row.map_r} for row in (found.old, *found.mapped, found.new)
    ]
    return {
        "items": asked.items, "sample": asked.sample, "rows": rows, "gain": found.gain, "map": found.kind,
        "rates": found.rates._asdict(), "hours": asked.hours, "bytes": asked.bytes, "advice": advise(found),
    }  # fmt: skip
