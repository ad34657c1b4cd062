"""Generated pages: conformance and errata are kept in the repository and must be current; others have every name."""

import html
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import similis
from docs.generator.command_line import command_line_page
from docs.generator.conformance import COLUMNS, EXACT, measured, rows_of
from docs.generator.errata import errata_page
from docs.generator.gallery import gallery_page
from docs.generator.losses import cell, loss_page, table_page
from docs.generator.mathematics import markdown
from docs.generator.specification import specification_page
from docs.hooks import formula, on_page_content, on_page_markdown, site_link
from similis.cli import VERBS
from similis.registry import losses
from similis.run.spec import RunSpec
from tests.docs.blocks import ROOT
from tests.proof import forms, shaped_forms

NUMBERS = ("value", "gradient", "peer difference")


@pytest.fixture(scope="module")
def committed():
    return rows_of((ROOT / "docs" / "conformance.md").read_text(encoding="utf-8"))


def test_conformance_has_exactly_the_current_forms(committed):
    assert list(committed) == [(entry.name, form) for entry, form in forms()]


@pytest.mark.parametrize(("entry", "form"), shaped_forms())
def test_conformance_rows_are_what_a_fresh_run_gives(entry, form, committed):
    row = measured(entry, form)
    assert row.oracle_verdict == "agrees"
    assert row.peer_verdict in ("agrees", "differs", "none")
    assert (row.peer_verdict == "differs") == bool(row.peer and row.peer.note), (
        "a disagreement has a reason, and only that"
    )
    for column, fresh in zip(COLUMNS, row.cells(), strict=True):
        if column not in NUMBERS:
            assert committed[entry.name, form][column] == cell(fresh).replace("\\|", "|"), column
            continue
        assert same_number(committed[entry.name, form][column], fresh), column


def same_number(kept: str, fresh: str) -> bool:
    """Equal words, both below the limit of exactness, or equal to one digit."""
    try:
        left, right = float(kept), float(fresh)
    except ValueError:
        return kept == fresh
    return max(left, right) < EXACT or left == pytest.approx(right, rel=0.5)


def test_same_number_can_tell():
    assert same_number("1e-16", "0")
    assert not same_number("1e-16", "1e-3")
    assert not same_number("no number", "1e-3")


def test_errata_are_what_a_fresh_run_gives():
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == gallery_page()
    kept, fresh = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8"), errata_page()
    number = r"-?\d+\.\d{8}"
    assert re.sub(number, "#", kept) == re.sub(number, "#", fresh)
    assert [float(x) for x in re.findall(number, kept)] == pytest.approx(
        [float(x) for x in re.findall(number, fresh)], abs=1e-6
    )


def test_every_loss_has_its_line_and_its_page():
    page = table_page()
    for entry in losses:
        assert f"[{entry.name}]({entry.name}.md)" in page
        own = loss_page(entry)
        assert f"::: {entry.function.__module__}.{entry.name}" in own
        assert all(f"pictures/{entry.name}-{form}.png" in own for form in entry.forms)
        assert f"(../pictures/losses/{entry.name}.svg)" in page
        begin = rf"# {entry.name}\n\n{re.escape(entry.summary)}\n\n!\[.+\]\(pictures/{entry.name}-"
        assert re.match(begin + next(iter(entry.forms)), own)


def test_docstrings_become_markdown():
    text = (
        "Half.\n\n.. math::\n    x\n    / 2\n\nwith :math:`x` and :class:`X`.\n\n"
        "=====  ====\na      b\n=====  ====\n1      2\n=====  ====\n"
    )
    assert markdown(text) == "Half.\n\n$$\nx\n/ 2\n$$\n\nwith $x$ and `X`.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_the_navigation_names_pages_that_exist_and_all_of_them():
    import yaml

    def files(node):
        if isinstance(node, str):
            yield node
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from files(child)

    class Loader(yaml.SafeLoader):
        """MkDocs allows tags of its own; none matters here."""

    Loader.add_multi_constructor("", lambda loader, tag, node: None)
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)
    written = {"losses/index.md", "miners.md", "command-line.md", "specification.md"}  # by mkdocs build
    assert [
        f
        for f in files(config["nav"])
        if f not in written and not any((root / f).exists() for root in (ROOT / "docs", ROOT))
    ] == []
    here = ROOT / "docs"
    pages = {
        p.relative_to(here).as_posix() for part in (".", "decisions", "tutorials") for p in (here / part).glob("*.md")
    }
    assert pages - set(files(config["nav"])) == set()


def test_examples_of_docstrings_become_code():
    assert markdown("Args:\n    x: y\n\nExample:\n    >>> 1\n    1\n").endswith("Examples:\n    >>> 1\n    1\n")


@pytest.mark.parametrize(("page", "module"), [("reference.md", similis), ("reference-formula.md", similis.formula)])
def test_the_reference_has_every_public_name(page, module):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    lines = rf"(^::: |`){re.escape(module.__name__)}\.(\w+)"
    named = {name for _, name in re.findall(lines, text, re.M)}
    assert set(module.__all__) - named == set()


def test_the_page_of_the_command_line_has_every_verb_and_option():
    page = command_line_page()
    assert [words for words in VERBS if f"\n## similis {words}\n" not in page] == []
    assert "| `--recipe` |" in page
    assert "| `SOURCE` |" in page


def test_the_page_of_the_specification_has_every_key():
    page = specification_page()
    parts = {name: field.annotation for name, field in RunSpec.model_fields.items() if name != "seed"}
    keys = [key for part in parts.values() for key in part.model_fields if key != "mining"]
    assert [key for key in keys if f"| `{key}` |" not in page] == []
    assert "| `mining.top_k` | whole number or null | `null` |" in page
    assert "| `optimiser` | `adamw`, `adam`, `sgd` | `adamw` |" in page


@pytest.mark.parametrize(
    ("target", "folder", "expected"),
    [
        ("src/similis/objective/losses/triplet.py", "tutorials", "../losses/triplet.md"),
        ("src/similis/objective/losses", "tutorials", "../losses/index.md"),
        ("src/similis/objective/miners", "", "miners.md"),
        ("results/losses.md", "", "results/losses.md"),
        ("docs/model.md", "results", "../model.md"),
        ("examples/own_loop.py", "tutorials", "../examples/own_loop.py"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(target, folder, expected):
    assert site_link(ROOT / target, Path(folder), "as given") == expected


def test_formulas_become_mathml():
    assert "<mi>α</mi>" in html.unescape(on_page_content(r'<span class="arithmatex">\(\alpha\)</span>'))
    with pytest.raises(ValueError, match="add it to TEX"):
        formula(r"\nonsense x", "inline")


def test_conformance_page_counts_its_rows(committed):
    agree = sum(row["verdict"] == "agrees" for row in committed.values())
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert f"{len(committed)} forms" in page
    assert f"peer: {agree} agree," in page


def test_wide_tables_name_their_cells():
    heads, cells = ("".join(f"<{kind}>{name}</{kind}>" for name in "abcd") for kind in ("th", "td"))
    made = on_page_content(f"<table>{heads}{cells}{cells}</table>")
    assert re.findall(r'<td data-label="(.)">(.)', made) == [(name, name) for name in "abcdabcd"]
    assert made.startswith('<div class="wide">')


def test_the_site_has_the_palette_and_the_logo_of_the_served_page():
    served = (ROOT / "src/similis/serving/page.html").read_text(encoding="utf-8")
    colours = re.findall(r"--[\w-]+: #\w+", (ROOT / "docs/site.css").read_text(encoding="utf-8"))
    assert len(colours) == 26  # 13 of each scheme
    assert set(colours) <= set(re.findall(r"--[\w-]+: #\w+", served))
    logo = (ROOT / "docs/pictures/logo.svg").read_text(encoding="utf-8")
    assert [circle.replace('"', "'") in served for circle in re.findall("circle .*?/", logo)] == [True, True]


def test_every_tutorial_has_a_picture_and_photos_have_dark_variants():
    for path in (ROOT / "docs/tutorials").glob("*.md"):
        assert re.search(r"!\[[^\]]{20,}\]\(\.\./pictures/", path.read_text(encoding="utf-8")), path.name
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    both = "![a](pictures/two-views.jpg#only-light)\n![a](pictures/two-views-dark.jpg#only-dark)"
    assert on_page_markdown("![a](pictures/two-views.jpg)", page) == both
