"""Numbers in sentences that carry a mark are what the committed records give.

A mark follows its number in the source and is invisible on the page::

    gains 23.1<!-- fine-tuning.json: cars196 whole network 0 / gain recall@1 160 / 0 % --> points

It names a file below ``results/``, a path of keys and list places inside ``figures``, ``%`` for a share and a last key
``1e6`` for megabytes. The number has as many digits as the page shows, and its sign may be left to the words.
"""

import json
import re

import pytest

from tests.docs.blocks import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "results").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MARK = re.compile(r"([-+−]?\d[\d,]*(?:\.\d+)?)<!--\s*(\S+\.json):\s*(.*?)\s*-->", re.DOTALL)
MARKED = [(page, *found) for page in PAGES for found in MARK.findall(page.read_text(encoding="utf-8"))]


def recorded(file: str, path: str) -> float:
    value = json.loads((ROOT / "results" / file).read_text(encoding="utf-8"))["figures"]
    keys, share = (path[:-1], True) if path.endswith("%") else (path, False)
    for key in (" ".join(each.split()) for each in keys.split("/")):
        value = value / 1e6 if key == "1e6" else value[int(key)] if isinstance(value, list) else value[key]
    return 100 * value if share else value


def written(text: str, value: float) -> bool:
    digits = len(text.partition(".")[2])
    shown = f"{value:+,.{digits}f}" if text[0] in "+-−" else f"{abs(value):,.{digits}f}"
    return shown == text.replace("−", "-")


@pytest.mark.parametrize(("page", "text", "file", "path"), MARKED, ids=lambda value: str(value)[-60:])
def test_a_marked_number_is_the_recorded_one(page, text, file, path):
    assert written(text, recorded(file, path)), f"{page.name}: {text} is {recorded(file, path)}"


def test_there_are_marks_and_none_is_malformed():
    assert MARKED
    for page in PAGES:
        source = page.read_text(encoding="utf-8")
        assert len(re.findall(r"\.json:", re.sub(r"```.*?```", "", source, flags=re.DOTALL))) == len(
            MARK.findall(source)
        ), page


def test_numbers_of_the_advice_stand_on_the_pages_it_links_to():
    page = ROOT / "results" / "which-loss-first.md"
    for row in page.read_text(encoding="utf-8").splitlines()[8:]:
        linked = [page.parent / target for target in re.findall(r"\]\(([\w/.-]+\.md)", row)]
        told = "".join(each.read_text(encoding="utf-8") for each in linked)
        unmarked = re.findall(r"\d+\.\d+", MARK.sub("", row))
        assert [number for number in unmarked if number not in told] == [], row
