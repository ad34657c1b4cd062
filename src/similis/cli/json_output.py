"""``--json``: what a verb returns as one JSON object on standard output; all else goes to standard error."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from contextvars import ContextVar
from dataclasses import is_dataclass
from functools import wraps
from typing import Annotated, Any, NamedTuple, TextIO

import typer

FLAG = "as_json"
INTERRUPTED = 130  # what shells give for Ctrl-C
Flag = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object; all else to standard error.")]
Result = Mapping[str, Any]  # what a verb returns
_output: ContextVar[TextIO | None] = ContextVar("json_output", default=None)  # where results go; None without --json


class Outcome(NamedTuple):
    """A result that ends with another exit code than 0."""

    result: Result
    code: int


def with_json(verb: Callable[..., Result | Outcome | None]) -> Callable[..., None]:
    """The verb with an option ``--json``; its own signature is what the command line and the docs show."""
    own = inspect.signature(verb, eval_str=True)
    flag = inspect.Parameter(FLAG, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Flag)

    @wraps(verb)
    def call(**given: Any) -> None:  # the signature below says what is given
        wanted = given.pop(FLAG)
        _output.set(sys.stdout if wanted else None)
        try:
            with redirect_stdout(sys.stderr if wanted else sys.stdout):
                found = verb(**given)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        result, code = found if isinstance(found, Outcome) else (found, 0)
        if wanted and result is not None:
            print_early(result)
        if code:
            raise typer.Exit(code)

    parameters = [*own.parameters.values(), flag]
    call.__signature__ = own.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def print_early(result: Result) -> None:
    """Print a result with ``--json`` before the verb has ended: one that serves has no other moment."""
    out = _output.get()
    if out is not None:
        typer.echo(json.dumps(plain_values(result), ensure_ascii=False, allow_nan=False), file=out)
        out.flush()


def plain_values(value: Any) -> Any:
    """A value as JSON has it: records are objects, paths are texts, and what is no finite number is null.

    Example:
        >>> from pathlib import Path
        >>> plain_values({"file": Path("a.png"), "value": float("nan"), "classes": (1, 2)})
        {'file': 'a.png', 'value': None, 'classes': [1, 2]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_values(each) for key, each in value.items()}
    if hasattr(value, "_asdict"):
        return plain_values(value._asdict())
    if is_dataclass(value):
        return plain_values(vars(value))
    if isinstance(value, list | tuple):
        return [plain_values(each) for each in value]
    return value if value is None or isinstance(value, str | int) else str(value)
