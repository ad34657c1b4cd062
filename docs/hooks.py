"""MkDocs hook: writes the generated pages, adds files from beside ``docs/``, turns formulas into MathML, names cells.

A link to a file outside of ``docs/`` works in the repository; here it is turned into a link that works on the site.
"""

from __future__ import annotations

import html
import itertools
import os
import re
import sys
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
BESIDE = ("results", "examples", "CHANGELOG.md", "CONTRIBUTING.md")  # what the site shows beside docs/
MOVED = (  # a file of the repository -> the page that is generated from it
    (re.compile(r"src/similis/objective/losses"), "losses/index.md"),
    (re.compile(r"src/similis/objective/losses/(\w+)\.py"), r"losses/\1.md"),
    (re.compile(r"src/similis/objective/miners(/\w+\.py)?"), "miners.md"),
    (re.compile(r"src/similis/cli/\w+\.py"), "command-line.md"),
    (re.compile(r"src/similis/run/spec\.py"), "specification.md"),
    (re.compile(r"README\.md"), "index.md"),
)
LINK = re.compile(r"(\]\()(?![a-z][a-z+.-]*:|#)([^)\s#]+)((?:#[^)\s]*)?\))")
PICTURE = re.compile(r'<picture><source [^>]*srcset="([^"]+)"><img src="([^"]+)" alt="([^"]*)"></picture>')
PHOTO = re.compile(r"!\[([^\]]*)\]\(([^)\s#]+)\.jpg\)")
SCRIPT = re.compile(r"^\[(examples/\w+\.py)\]\([^)]+\)$", re.M)
TEX = {  # what latex2mathml does not know -> what it knows
    r"\Big\{": r"\left\{", r"\Big\}": r"\right\}",
    r"\arg\max": r"\operatorname{arg}\max", r"\arg\min": r"\operatorname{arg}\min",
}  # fmt: skip
TABLE = re.compile(r"<table>.*?</table>", re.S)
WIDE = 4  # columns; such a table is shown as cards on a phone
FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.S)


def on_config(config):
    """Write the pages of losses, miners, commands and keys, and put one line for each loss in the navigation."""
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # here, as MkDocs undoes what a hook changes when it is loaded
    from docs.generator.pages import write_pages

    write_pages(ROOT / "docs")
    pages = sorted((ROOT / "docs" / "losses").glob("*.md"))
    known = next(part["Losses"] for part in sections(config.nav) if "Losses" in part)
    known += [{page.stem: f"losses/{page.name}"} for page in pages if page.stem != "index"]
    return config


def sections(nav):
    """All mappings of a navigation, those below others included."""
    for part in nav if isinstance(nav, list) else []:
        if isinstance(part, dict):
            yield part
            for below in part.values():
                yield from sections(below)


def on_files(files, config):
    """Add what lies beside ``docs/``."""
    for name in BESIDE:
        place = ROOT / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                own = path.relative_to(ROOT).as_posix()
                files.append(File(own, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown, page, **_):
    """Scripts instead of a line that links to one; links to files outside of ``docs/`` as they are on the site."""
    markdown = SCRIPT.sub(lambda found: f"```python title={found[1]!r}\n{(ROOT / found[1]).read_text()}```", markdown)
    own = page.file.src_uri
    here = ROOT if own.startswith(BESIDE) else ROOT / "docs"
    folder = (here / own).parent

    def moved(found: re.Match[str]) -> str:
        return found[1] + site_link((folder / found[2]).resolve(), Path(own).parent, found[2]) + found[3]

    markdown = PICTURE.sub(r"![\3](\2#only-light)\n![\3](\1#only-dark)", markdown)
    return PHOTO.sub(lambda found: with_dark_variant(found, folder), LINK.sub(moved, markdown))


def with_dark_variant(found: re.Match[str], folder: Path) -> str:
    """A picture ``x.jpg`` beside which ``x-dark.jpg`` lies, as both: Material shows the one of the colour scheme."""
    if not (folder / f"{found[2]}-dark.jpg").is_file():
        return found[0]
    return f"![{found[1]}]({found[2]}.jpg#only-light)\n![{found[1]}]({found[2]}-dark.jpg#only-dark)"


def site_link(target: Path, folder: Path, given: str) -> str:
    """A link from a folder of the site to a file of the repository; one that needs no change is returned as given."""
    if not target.is_relative_to(ROOT):
        return given
    name = target.relative_to(ROOT).as_posix()
    if name.startswith("docs/"):
        name = name.removeprefix("docs/")
    else:
        name = next((place.sub(page, name) for place, page in MOVED if place.fullmatch(name)), name)
    return os.path.relpath(name, folder)


def on_page_content(content, **_):
    """Formulas as MathML, which browsers draw by themselves; wide tables with the name of its column in each cell."""
    content = TABLE.sub(lambda found: named_cells(found[0]), content)
    return FORMULA.sub(lambda found: formula(found[2], "inline" if found[1] == "span" else "block"), content)


def named_cells(table: str) -> str:
    """A table whose cells say their columns if it is wide; ``site.css`` makes cards of its rows on a phone.

    Example:
        >>> named_cells("<table><th>a</th></table>")
        '<table><th>a</th></table>'
    """
    columns = [re.sub("<.*?>", "", head) for head in re.findall(r"<th\b.*?>(.*?)</th>", table, re.S)]
    if len(columns) < WIDE:
        return table
    labels = itertools.cycle(f'<td data-label="{html.escape(html.unescape(column))}"' for column in columns)
    return f'<div class="wide">{re.sub("<td", lambda _: next(labels), table)}</div>'


def formula(tex: str, display: str) -> str:
    """MathML of a formula.

    Example:
        >>> "<mi>x</mi>" in formula("x", "inline")
        True
    """
    tex = html.unescape(tex).strip()
    for unknown, known in TEX.items():
        tex = tex.replace(unknown, known)
    made = convert(tex, display=display)
    if "\\" in made:
        raise ValueError(f"latex2mathml does not know a command of {tex!r}; add it to TEX")
    return f'<div class="formula">{made}</div>' if display == "block" else made
