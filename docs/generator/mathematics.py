"""Docstrings in the Markdown of the site: formulas between dollars, roles as code.

Docstrings of the package write formulas as ``.. math::`` blocks and ``:math:`x``` so that editors and
Sphinx read them; the site is Markdown. Used as an extension of mkdocstrings' reader.
"""

from __future__ import annotations

import re

import griffe


def markdown(docstring: str) -> str:
    r"""The docstring with ``.. math::`` as ``$$`` blocks and roles replaced.

    Example:
        >>> markdown("Half, :math:`x/2`.")
        'Half, $x/2$.'
    """
    text = re.sub(
        r"^([ \t]*)\.\. math::[ \t]*(.*(?:\n(?:\1[ \t]+.*|[ \t]*(?=\n\1[ \t])))*)", display, docstring, flags=re.M
    )
    text = re.sub(r"^([ \t]*)=+ +=[= ]*\n(?:.*\n)+?\1=+ +=[= ]*\n(?:.*\n)+?\1=+ +=[= ]*$", table, text, flags=re.M)
    text = re.sub(r"^([ \t]*)Example:[ \t]*$", r"\1Examples:", text, flags=re.M)  # the name whose doctests are code
    text = re.sub(r":math:`([^`]*)`", r"$\1$", text)
    text = re.sub(r":[a-z]+:`~?([^`]*)`", r"`\1`", text)
    text = re.sub(r"^([ \t]*)(Shapes?|When to use|Further reading|References?):[ \t]+", r"\1**\2.** ", text, flags=re.M)
    return re.sub(r"::\n", ":\n", text)


def display(found: re.Match[str]) -> str:
    """A block of mathematics between two lines of dollars, with the indentation of the block."""
    indent = found.group(1)
    lines = [line.strip() for line in found.group(2).splitlines() if line.strip()]
    return "\n".join(f"{indent}{line}" for line in ["$$", *lines, "$$"])


def table(found: re.Match[str]) -> str:
    """A table between lines of equal signs as a Markdown table."""
    indent, lines = found.group(1), found.group(0).splitlines()
    starts = [match.start() for match in re.finditer(r"=+", lines[0])]
    ends = [*starts[1:], None]
    rows = [
        [line[a:b].strip().replace("|", "\\|") for a, b in zip(starts, ends, strict=True)]
        for line in lines
        if "===" not in line
    ]
    made = [rows[0], ["---"] * len(starts), *rows[1:]]
    return "\n".join(f"{indent}| {' | '.join(cells)} |" for cells in made)


class Mathematics(griffe.Extension):
    """Rewrites every docstring before mkdocstrings parses it."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
