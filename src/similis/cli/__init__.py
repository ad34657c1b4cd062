"""The command line: a table of verbs, each a keyword-only function in its own small file.

Comes in: words of a shell. Goes out: tables on the screen, or with ``--json`` what the verb returns; an exit code.
To add a verb: write ``mine.py`` here with a function that returns its result, and one line in ``VERBS``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer
import typer.core

from similis import __version__
from similis.cli.json_output import with_json
from similis.cli.options import state_defaults
from similis.values import SimilisError, UserError

# Words of the verb -> file and function. "losses" is also a group: alone it calls its own function.
VERBS = {
    "losses": "losses:losses",
    "losses show": "losses:show",
    "losses draw": "losses:draw",
    "index": "index:index",
    "metric": "metric:metric",
    "data show": "data:show",
    "data check": "data:check",
    "data words": "data:words",
    "train": "train:train",
    "evaluate": "evaluate:evaluate",
    "embed": "embed:embed",
    "search": "search:search",
    "serve": "serve:serve",
    "verify": "verify:verify",
    "cluster": "cluster:cluster",
    "compare": "compare:compare",
    "export": "export:export",
    "upgrade": "upgrade:upgrade",
    "doctor": "doctor:doctor",
    "tournament plan": "tournament:plan",
    "tournament run": "tournament:run",
    "tournament report": "tournament:report",
}

HELP = {  # groups of `similis --help`, and a line for each first word
    "Start": {
        "data": "Show a data set, or find its faults.",
        "train": "Train on your photos, and see whether it helped.",
        "export": "Write a trained model as a search to serve.",
    },
    "Use": {
        "search": "Find the photos most similar to one.",
        "serve": "Serve a search page and an HTTP API.",
        "upgrade": "Move a served collection to another model.",
        "cluster": "Group photos by similarity, without labels.",
        "embed": "Embed many images, in parts that resume.",
        "index": "Build the smallest index that finds enough.",
    },
    "Measure": {
        "evaluate": "Compare models on the same images.",
        "verify": "Choose a threshold for same or different.",
        "compare": "Test whether a loss beats a baseline.",
        "tournament": "Compare many losses by a plan.",
    },
    "Losses": {"losses": "List losses; show or draw one."},
    "More": {
        "metric": "Learn a metric from a table of numbers.",
        "doctor": "Check losses and ranks on this device.",
    },
}
TRAIN_HELP = {  # groups of `similis train --help`; the other options come last
    "Basic": "loss epochs size dim backbone weights from_ batch lr seed head recipe set_",
    "Data": "protocol exclude allow_counts all_classes root verify",
    "Files": "runs pictures photos template as_json",
    "Hardware": "device loaders cache_gb ranks shard_classes",
    "Cluster": "workers address cpus gpus",
}

EXIT_CODES = {
    0: "done",
    1: "data, files or an extra are missing or damaged; `similis data check` found errors, `similis index` no index, "
    "`similis doctor` a failed check",
    2: "an argument, an option or a setting is wrong",
    130: "stopped by Ctrl-C",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake ends with one sentence and one of ``EXIT_CODES``, not with a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(words[0] if words else None)(words, prog_name="similis")
    except SimilisError as error:
        typer.echo(f"similis: {error}", err=True)
        raise SystemExit(2 if isinstance(error, UserError) else 1) from None
    except OSError as error:  # a place that cannot be read or written is no fault of the program
        where = f"{str(error.filename)!r} cannot be used ({error.strerror})" if error.filename else str(error)
        typer.echo(f"similis: {where}; check the path, its permissions and the space on its disk", err=True)
        raise SystemExit(1) from None


def app(first: str | None = None) -> typer.Typer:
    """The application; with the first word of a known verb, only that verb's files are imported."""
    made = typer.Typer(
        cls=TopLevel,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
    )
    made.callback()(top_level)
    tops = dict.fromkeys(words.split()[0] for words in VERBS)
    for top in [first] if first in tops else tops:
        attach(made, str(top))
    return made


def attach(parent: typer.Typer, top: str) -> None:
    """Add a verb, and the group of verbs below it if there are any."""
    below = {words.partition(" ")[2]: place for words, place in VERBS.items() if words.startswith(f"{top} ")}
    own = VERBS.get(top)
    if not below:
        parent.command(top, cls=Verb)(with_json(function_at(VERBS[top])))
        return
    about = function_at(next(iter(below.values()))).__globals__["__doc__"].partition(": ")[2]
    words = function_at(own).__doc__ if own is not None else about[:1].upper() + about[1:]
    group = typer.Typer(no_args_is_help=own is None, rich_markup_mode=None, help=words)
    if own is not None:
        group.callback(invoke_without_command=True)(with_json(function_at(own)))
    for word, place in below.items():
        group.command(word, cls=Verb)(with_json(function_at(place)))
    parent.add_typer(group, name=top)


class TopLevel(typer.core.TyperGroup):
    """The first words, in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """A section for each group; every line is whole."""
        for title, lines in HELP.items():
            with formatter.section(title):
                formatter.write_dl(list(lines.items()))


class Verb(typer.core.TyperCommand):
    """A verb whose help states the defaults of a specification, and whose errors about a value repeat the value."""

    def get_help(self, ctx: Any) -> str:
        """As the parent, with defaults for the keys in the help texts."""
        for each in self.params:
            each.help = state_defaults(each.help or "")  # type: ignore[attr-defined]
        return super().get_help(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """As the parent; those of ``train`` in groups."""
        if self.name != "train":
            super().format_options(ctx, formatter)
            return
        records = {each.name: each.get_help_record(ctx) for each in self.get_params(ctx)}
        groups = {"Arguments": ["source"]} | {title: names.split() for title, names in TRAIN_HELP.items()}
        groups["More"] = [name for name in records if not any(name in names for names in groups.values())]
        for title, names in groups.items():
            with formatter.section(title):
                formatter.write_dl([records[name] for name in names])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the parent, with the word behind the option at the end of its error."""
        words = " ".join(args).replace("=", " ").split()
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            names = error.param.opts if error.param is not None else []
            given = [word for name, word in pairwise(words) if name in names]
            error.message = error.message.removeprefix("Value error, ")  # a word of pydantic's, by which typer reads
            error.message += f"; {given[-1]!r} given" if given and repr(given[-1]) not in error.message else ""
            raise


def function_at(place: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 - any verb's signature
    """The function of a verb from ``file:function``."""
    file, _, name = place.partition(":")
    return getattr(importlib.import_module(f"similis.cli.{file}"), name)


def show_version(wanted: bool) -> None:
    """Print the version and stop, if it is wanted."""
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def top_level(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=show_version)
    ] = False,
) -> None:
    """Learn what similar means: losses, training, fair comparison, search."""
