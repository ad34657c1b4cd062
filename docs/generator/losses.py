"""The pages of losses and miners, from the registry."""

from __future__ import annotations

import inspect
from pathlib import Path

from similis.cli.losses import FAMILIES, RELATIONS, needs, options, span, year
from similis.figures.force_plot import save_forces
from similis.registry import LossEntry, losses, miners

READING = "Arrows show minus the gradient at a batch of three classes on the circle; a star or a diamond is a proxy."


def write_losses(docs: Path) -> int:
    """Write the table, a page and the pictures of every loss; returns the number of files."""
    folder = docs / "losses"
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    pages = {"index.md": table_page()} | {f"{entry.name}.md": loss_page(entry) for entry in losses}
    for name, page in pages.items():
        write_if_changed(folder / name, page)
    for entry in losses:
        formula = Path(inspect.getfile(entry.function))
        for form in entry.forms:
            picture = folder / "pictures" / f"{entry.name}-{form}.png"
            if not picture.exists() or picture.stat().st_mtime < formula.stat().st_mtime:
                save_forces(entry.name, picture, form=form)
    return sum(1 for file in folder.rglob("*.*"))


def write_if_changed(path: Path, text: str) -> None:
    """Write a text; a file that holds it already is left alone, so that ``mkdocs serve`` does not build forever."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def cell(text: str) -> str:
    """Text that keeps a Markdown table whole."""
    return text.replace("|", "\\|").replace("\n", " ")


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *([cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def docstring(name: str, heading: str) -> str:
    """Signature and docstring of a function, under the name by which users reach it."""
    return f"::: {name}\n    options:\n      heading: '{heading}'\n"


def table_page() -> str:
    """All losses by family, a card each."""
    intro = (
        "Every loss of the library. `similis losses` prints them as a table; `similis train --loss NAME` takes a name."
    )
    parts = ["# Losses\n", f"{intro} {READING}\n"]
    for family in FAMILIES:
        cards = [card(entry) for entry in losses if entry.family == family]
        if cards:
            parts += [f"## {family.capitalize()}\n", '<div class="grid cards" markdown>\n', *cards, "</div>\n"]
    return "\n".join(parts)


def card(entry: LossEntry) -> str:
    """Name, year, a small picture, what a loss does and what it needs."""
    picture = f"![Forces of {entry.name}](../pictures/losses/{entry.name}.svg)"
    wanted = f"\n\n    Needs {', '.join(needs(entry))}." if needs(entry) else ""
    return f"-   {picture} **[{entry.name}]({entry.name}.md)** {year(entry.paper)}\n\n    {entry.summary}{wanted}\n"


def given(entry: LossEntry, form: str) -> str:
    """The options of a form as code."""
    return f"`{options(entry.forms[form])}`" if entry.forms[form] else "defaults"


def loss_page(entry: LossEntry) -> str:
    """One loss: a sentence and its forces, docstring, facts, other forms, presets."""
    module = entry.function.__module__
    facts = [
        ["paper", entry.paper],
        ["original network and size", entry.network],
        ["family", entry.family],
        ["geometry", entry.geometry],
        ["input", entry.input],
        ["a pair's weight depends on", entry.weight],
        ["needs", ", ".join(needs(entry)) or "nothing beside labels"],
        ["mined tuples", entry.accepts or "none"],
        ["labels", RELATIONS[entry.relation]],
        ["cross-batch memory", "yes" if entry.memory else "no"],
        [
            "learns",
            f"{', '.join(entry.learns)} (learning rate x{entry.lr_multiplier:g})" if entry.learns else "nothing",
        ],
        ["time, memory", f"{entry.cost.time}; {entry.cost.memory}"],
    ]
    pictures = {
        form: f"![Forces of {entry.name}, form {form}](pictures/{entry.name}-{form}.png){{ width=520 }}\n"
        for form in entry.forms
    }
    first, *others = entry.forms
    parts = [f"# {entry.name}\n", f"{entry.summary}\n", pictures[first], f"{READING}\n", "## Formula and options\n"]
    parts += [docstring(f"{module}.{entry.function.__name__}", f"similis.losses.{entry.name}")]
    parts += ["## Facts\n", table(["what", "value"], facts)]
    if others:
        parts += ["## Forms\n", f"The picture above shows `{first}` ({given(entry, first)}).\n"]
    for form in others:
        parts += [f"### {form}\n", f"{given(entry, form)}\n", pictures[form]]
    if entry.presets:
        rows = [
            [
                name,
                f"`{options(p.options)}`" if p.options else "defaults",
                p.miner or "-",
                "-" if p.lr_multiplier is None else f"x{p.lr_multiplier:g}",
                p.source,
            ]
            for name, p in entry.presets.items()
        ]
        parts += ["## Presets\n", table(["preset", "options", "miner", "learning rate", "source"], rows)]
    if entry.space:
        parts += ["## Search space\n", table(["option", "range"], [[k, span(v)] for k, v in entry.space.items()])]
    if entry.exempt:
        parts += [
            "## Contracts it does not keep\n",
            table(["contract", "why"], [[k, v] for k, v in entry.exempt.items()]),
        ]
    return "\n".join(parts)


def miners_page() -> str:
    """All miners with their docstrings."""
    intro = (
        "A miner chooses the pairs or triplets of a batch that a loss is restricted to. It sees similarities and "
        "masks, all without gradient, and reports how many tuples it found: a run that mines nothing looks like "
        "one that has converged. Pass its name to `similis.loss(..., miner=...)`.\n"
    )
    rows = [
        [
            f"[{m.name}](#similis.objective.miners.{m.function.__module__.rpartition('.')[2]}.{m.name})",
            m.returns,
            m.summary,
            year(m.paper),
        ]
        for m in miners
    ]
    blocks = [docstring(f"{m.function.__module__}.{m.function.__name__}", f'similis.miner("{m.name}")') for m in miners]
    return "\n".join(["# Miners\n", intro, table(["name", "returns", "what it picks", "year"], rows), *blocks])
