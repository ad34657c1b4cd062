"""A report as blocks, and its two writers: Markdown beside its pictures, and one HTML page with everything inside."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem 1.5rem 4rem; max-width: 62rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #8886; }
table { border-collapse: collapse; font-size: 0.86rem; } .wide { overflow-x: auto; }
th, td { padding: 0.25rem 0.6rem; text-align: left; border-bottom: 1px solid #8884; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
img { max-width: 100%; height: auto; background: white; } figure { margin: 1rem 0; } figcaption { font-size: 0.86rem; }
code { font-size: 0.9em; overflow-wrap: anywhere; }
.alarm { border: 2px solid #d55e00; padding: 0.6rem 1rem; font-weight: 600; }
summary { cursor: pointer; font-weight: 600; margin: 0.5rem 0; }
"""


@dataclass(frozen=True)
class Heading:
    """A heading of level 1 to 3."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph; ``alarm`` frames it."""

    text: str
    alarm: bool = False


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table; numbers stand right-aligned."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A picture with what it shows, for those who do not see it."""

    name: str
    png: bytes
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Fold:
    """Blocks that open on demand."""

    summary: str
    blocks: Sequence[Block]


Block = Heading | Text | Items | Table | Picture | Fold


@dataclass
class Page:
    """A page: a title and blocks."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        self.blocks += blocks

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``report.md`` with ``figures/``, and ``report.html``."""
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        for picture in pictures(self.blocks):
            (folder / "figures" / f"{picture.name}.png").write_bytes(picture.png)
        markdown, page = folder / "report.md", folder / "report.html"
        markdown.write_text(f"# {self.title}\n\n" + "\n\n".join(map(as_markdown, self.blocks)) + "\n", encoding="utf-8")
        page.write_text(self.html(), encoding="utf-8")
        return markdown, page

    def html(self) -> str:
        """The page as one HTML file that needs nothing else."""
        body = "\n".join(map(as_html, self.blocks))
        title = html.escape(self.title)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n{body}\n</main></body></html>\n"
        )


def pictures(blocks: Sequence[Block]) -> list[Picture]:
    """All pictures, those in folds too."""
    found: list[Picture] = []
    for block in blocks:
        if isinstance(block, Picture):
            found.append(block)
        elif isinstance(block, Fold):
            found += pictures(block.blocks)
    return found


def as_markdown(block: Block) -> str:
    """A block in Markdown."""
    match block:
        case Heading():
            return f"{'#' * block.level} {block.text}"
        case Text():
            return f"> **{block.text}**" if block.alarm else block.text
        case Items():
            return "\n".join(f"- {item}" for item in block.items)
        case Table():
            lines = [block.columns, ["---"] * len(block.columns), *block.rows]
            return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)
        case Picture():
            return f"![{block.alt}](figures/{block.name}.png)" + (f"\n\n{block.caption}" if block.caption else "")
        case Fold():
            return "\n\n".join([f"**{block.summary}**", *map(as_markdown, block.blocks)])


def as_html(block: Block) -> str:
    """A block in HTML."""
    match block:
        case Heading():
            return f"<h{block.level}>{inline(block.text)}</h{block.level}>"
        case Text():
            return f'<p class="alarm">{inline(block.text)}</p>' if block.alarm else f"<p>{inline(block.text)}</p>"
        case Items():
            return "<ul>" + "".join(f"<li>{inline(item)}</li>" for item in block.items) + "</ul>"
        case Table():
            head = "".join(f'<th scope="col">{inline(column)}</th>' for column in block.columns)
            rows = "".join(f"<tr>{''.join(map(cell_html, row))}</tr>" for row in block.rows)
            return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        case Picture():
            data = base64.b64encode(block.png).decode()
            caption = f"<figcaption>{inline(block.caption)}</figcaption>" if block.caption else ""
            alt = html.escape(block.alt, quote=True)
            return f'<figure><img alt="{alt}" src="data:image/png;base64,{data}">{caption}</figure>'
        case Fold():
            inner = "\n".join(map(as_html, block.blocks))
            return f"<details><summary>{inline(block.summary)}</summary>\n{inner}\n</details>"


def cell_html(cell: str) -> str:
    """A cell; one that begins with a digit or sign is a number."""
    kind = ' class="n"' if re.match(r"^[-+−]?\d[\d,.]*( [±].*)?%?$", cell) else ""
    return f"<td{kind}>{inline(cell)}</td>"


def inline(text: str) -> str:
    """Text with `code` and **strong** marked."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", marked)
