"""The page of the command line, from the verbs themselves."""

from __future__ import annotations

from typing import Any

import typer

from docs.generator.losses import table
from similis.cli import VERBS, app
from similis.cli.options import state_defaults

INTRO = """# Command line

`similis VERB --help` prints the same as this page. Every verb takes `--json`; that, exit codes and completion are
explained in [scripts and shells](scripting.md). Rerunning a command continues where it stopped.
"""


def command_line_page() -> str:
    """Every verb with its arguments and options."""
    top = typer.main.get_command(app())
    return "\n".join([INTRO, *(verb_part(top, words) for words in VERBS)])


def verb_part(top: Any, words: str) -> str:
    """One verb: what it does, then a table of its arguments and options."""
    command = top
    for word in words.split():
        command = command.commands[word]  # type: ignore[attr-defined]
    given = [parameter for parameter in command.params if parameter.name != "help"]
    usage = " ".join(p.name.upper() for p in given if p.param_type_name == "argument")
    rows = [
        [f"`{names(p)}`", state_defaults(getattr(p, "help", "") or ""), default(p)]
        for p in sorted(given, key=lambda p: p.param_type_name != "argument")
    ]
    parts = [f"## similis {words}\n", f"{(command.help or '').strip()}\n", f"`similis {words} {usage}`".rstrip() + "\n"]
    return "\n".join([*parts, table(["argument or option", "meaning", "default"], rows)] if rows else parts)


def names(parameter: Any) -> str:
    """How it is written on the command line."""
    if parameter.param_type_name == "argument":
        return parameter.name.upper()
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def default(parameter: Any) -> str:
    """The default, where there is one that the meaning does not state in brackets."""
    value = parameter.default
    if value is None or value is False or callable(value) or parameter.required:
        return ""
    return f"`{'on' if value is True else value}`"
