"""Code blocks of Markdown pages.

A block that cannot run here (it needs photos, a network, a cluster) is preceded by a comment of its
own line that says why: ``<!-- not run: needs photos -->``.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?P<mark><!--\s*not run:.*?-->\s*\n)?^```(?P<kind>\w+)[^\n]*\n(?P<text>.*?)^```\s*$", re.M | re.S)
SHELL = ("bash", "console", "shell", "sh")


class Block(NamedTuple):
    """Kind of a block, its text, and the line at which it begins."""

    kind: str
    text: str
    line: int


def pages() -> list[Path]:
    """README and every written page; pages that are generated from docstrings have no blocks of their own."""
    written = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "results").rglob("*.md"))]
    return [page for page in written if page.parent.name != "losses" and page.exists()]


def blocks(text: str) -> list[Block]:
    """Python and shell blocks that are to be run."""
    found = []
    for match in BLOCK.finditer(text):
        if match["mark"] is None and match["kind"] in ("python", *SHELL):
            found.append(Block(match["kind"], match["text"], text[: match.start("text")].count("\n") + 1))
    return found


def commands(block: Block) -> list[list[str]]:
    """The words of each ``similis`` line of a shell block, prompts dropped and broken lines joined."""
    lines = block.text.replace("\\\n", " ").splitlines()
    words = [
        shlex.split(line.removeprefix("$ "), comments=True) for line in lines if re.match(r"(\$ )?similis\b", line)
    ]
    return [line[1:] for line in words]
