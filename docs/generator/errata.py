"""The errata page: tables of misprints with our resolution, and numbers for those that can be shown."""

from __future__ import annotations

from docs.generator import errata_survey as survey
from docs.generator import errata_thesis as thesis
from docs.generator import numbers, numbers_code
from docs.generator.losses import table

INTRO = """# Errata

Two documents and much public code stand behind the losses of this library:

* *the survey*: Mohan, Jawade, Setlur, Govindaraju, *Deep Metric Learning for Computer Vision: A Brief Overview*, 2023;
* *the thesis*: Psomas, *Metric Learning: A Deep Dive*, Athens 2020, with its public code (March 2021).

Both are good guides to the ideas. If you implement their formulas as printed, expect the following errors. The last
column says what the library does; where a number can show the difference, it is [below](#shown-by-numbers), computed
when this page is generated.
"""
GROUPS = [
    ("Survey: signs, exponentials, factors", survey.SIGNS),
    ("Survey: index sets", survey.SETS),
    ("Survey: meaning", survey.MEANING),
    ("Thesis: formulas", thesis.FORMULAS),
    ("Thesis: tables and settings", thesis.TABLES),
    ("Thesis: text", thesis.TEXT),
]


def errata_page() -> str:
    """The whole page."""
    parts = [INTRO]
    for title, rows in GROUPS:
        parts += [f"## {title}\n", table(["where", "what is wrong", "what Similis does"], [list(row) for row in rows])]
    parts += [
        "## Thesis: text against public code\n",
        "The repository appeared half a year after the thesis and does not run as it is, so it may differ from what "
        "produced the tables. Its results are reference points, not targets.\n",
        table(["loss", "text and tables", "code"], [list(row) for row in thesis.CODE_OF_THESIS]),
    ]
    parts += [
        "## Other public code\n",
        "Read in the repositories, and run where a number is given below. "
        "Repositories change; look before you rely on a row.\n",
        table(["where", "what it does", "what Similis does"], [list(row) for row in thesis.PUBLIC_CODE]),
    ]
    parts += [
        "## Shown by numbers\n",
        "Batches of six unit vectors on the circle, the ones of the tests, in float64.\n",
    ]
    for demonstration in (make() for make in numbers.ALL + numbers_code.ALL):
        parts += [
            f"### {demonstration.title}\n",
            f"{demonstration.text}\n",
            table(["", "as printed or found", "Similis"], [list(row) for row in demonstration.rows]),
        ]
    return "\n".join(parts)
