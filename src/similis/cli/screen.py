"""Tables and lines on the screen; a pipe gets them unwrapped and without colour."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 200


def console(*, to_stderr: bool = False) -> Console:
    """A console of the terminal's width or COLUMNS, or wide enough for every table when output goes to a file."""
    from rich.console import Console

    fits = (sys.stderr if to_stderr else sys.stdout).isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(width=None if fits else PIPE_WIDTH, highlight=False, stderr=to_stderr)


def print_lines(*lines: str, style: str | None = None) -> None:
    """Lines as they are: square brackets are text. A terminal wraps what is too long, below the first word's end."""
    screen = console()
    for line in lines:
        if screen.is_terminal and len(line) > screen.width:
            lead = re.match(r"\S*\s{2,}", line)
            hang = " " * (0 if lead is None else len(lead[0]))
            line = textwrap.fill(line, screen.width, subsequent_indent=hang, break_on_hyphens=False)  # noqa: PLW2901
        screen.print(line, markup=False, soft_wrap=True, style=style)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """One table with a title; square brackets in cells are text, not markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)
