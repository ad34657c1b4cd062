"""What of a program decides its numbers: the source of one registered function, without what only people read."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from textwrap import dedent
from types import CodeType
from typing import Any

from similis.registry import Registry

INSTALLED = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
NOT_COMPUTED = {"paper", "cost"}  # what a registration says to readers


def source_hash(registry: Registry[Any], name: str) -> str:
    """Hash of the file that a registered function is in, and of the files of its author that this one imports.

    Comments, docstrings, annotations, layout and the place of a file change nothing, and neither does another
    function's file. What a file imports from Similis itself is covered by ``NUMERICS``, installed packages by the
    record of their versions.

    Args:
        registry: losses, miners, samplers or backbones.
        name: of an entry.
    """
    entry = registry.get(name)
    module = entry.function.__module__
    text = entry.source or compiled_text(entry.function)
    beside = imported_texts(module, text, registry.package).values()
    digest = hashlib.sha256(entry.name.encode())
    for part in (essence(text), *sorted(map(essence, beside))):
        digest.update(f"\0{part}".encode())
    return digest.hexdigest()[:16]


def compiled_text(function: Callable[..., Any]) -> str:
    """For a function without source: its byte code, or the bytes of its extension module."""
    if hasattr(function, "__code__"):
        return code_text(function.__code__)
    return Path(str(sys.modules[function.__module__].__file__)).read_bytes().hex()


def code_text(code: CodeType) -> str:
    """Byte code with its names and constants, as text."""
    inner = [code_text(value) if isinstance(value, CodeType) else repr(value) for value in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


class Essence(ast.NodeTransformer):
    """Drop what computes nothing. Of imports only new names stay: what they name is hashed or versioned elsewhere."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Drop a docstring and an annotation; a body is never left empty."""
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.Call):
            node.keywords = [each for each in node.keywords if each.arg not in NOT_COMPUTED]
        body = getattr(node, "body", None)
        if isinstance(body, list):
            written = [
                each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ]
            node.body = written or [ast.Pass()]  # type: ignore[attr-defined]
        return node

    def visit_import(self, node: ast.Import | ast.ImportFrom) -> ast.AST | None:
        """Only ``f as g``, without the module: the name ``f`` is in no other line."""
        renamed = [each for each in node.names if each.asname not in (None, each.name)]
        return (
            ast.Import([ast.alias(each.name.rpartition(".")[2], each.asname) for each in renamed]) if renamed else None
        )

    visit_Import = visit_ImportFrom = visit_import  # noqa: N815 - the names that NodeTransformer looks for

    def visit_If(self, node: ast.If) -> ast.AST | None:
        """Imports for type checkers go with their condition."""
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


@cache
def essence(text: str) -> str:
    r"""Source without imports, comments, docstrings, annotations and layout; what is not Python stays as it is.

    Example:
        >>> essence("import torch\ndef f(x: int):\n    'Add.'\n    return (x   + 1)  # one more")
        'def f(x):\n    return x + 1'
    """
    try:
        return ast.unparse(Essence().visit(ast.parse(dedent(text))))
    except (SyntaxError, ValueError):
        return text


def imported_texts(module: str, text: str, package: str) -> dict[str, str]:
    """Module -> source of everything beside a module that it imports, directly or in turn.

    Args:
        module: name of the module.
        text: its source.
        package: of the registry; its other files count as beside.
    """
    found: dict[str, str] = {}
    waiting = [(module, text)]
    while waiting:
        here, source = waiting.pop()
        for name in imported_names(here, source):
            if name not in found and name != module and is_beside(name, module, package):
                try:
                    found[name] = inspect.getsource(sys.modules[name])
                except (OSError, TypeError):  # an empty file, or none
                    continue
                waiting.append((name, found[name]))
    return found


def is_beside(name: str, module: str, package: str) -> bool:
    """Whether a module is of the same author: of the same package, or a file that nobody installed."""
    if name not in sys.modules:
        return False
    top = name.partition(".")[0]
    if top == "similis":
        return name.startswith(f"{package}.")
    file = getattr(sys.modules[name], "__file__", None)
    return top == module.partition(".")[0] or (
        file is not None and not any(Path(file).is_relative_to(place) for place in INSTALLED)
    )


def imported_names(module: str, text: str) -> Iterator[str]:
    """Full names that the import statements of a source may mean as modules."""
    try:
        nodes = list(ast.walk(ast.parse(dedent(text))))
    except (SyntaxError, ValueError):
        return
    package = getattr(sys.modules.get(module), "__package__", None) or ""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level and not package:
                continue
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
