"""``similis miners``: every miner in one table."""

from __future__ import annotations


def miners() -> None:
    """List the miners and what they return."""
    from similis.cli.losses_show import options
    from similis.cli.screen import show_table
    from similis.registry import miners as registered

    rows = [(m.name, m.returns, options(m.options) or "-", m.summary, m.paper) for m in registered]
    show_table(f"miners ({len(rows)})", ("name", "returns", "options", "what it picks", "paper"), rows)
