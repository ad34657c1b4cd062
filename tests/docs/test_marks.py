"""Numbers that ``numbers.yaml`` marks on README, docs and results are what the committed records give.

A number has as many digits as the page shows, and its sign may be left to the words.
"""

import json
import re

import pytest
import yaml

from tests.docs.blocks import ROOT

NUMBER = re.compile(r"\{(.+?)\}")
LISTED = yaml.safe_load((ROOT / "tests" / "docs" / "numbers.yaml").read_text(encoding="utf-8"))
SNIPPETS = [(page, *each) for page, snippets in LISTED.items() for each in snippets.items()]
MARKED = [each for _, text, records in SNIPPETS for each in zip(NUMBER.findall(text), records, strict=True)]


def recorded(record: str) -> float:
    file, *keys = (" ".join(key.split()) for key in record.removesuffix("%").split("/"))
    value = json.loads((ROOT / "results" / file).read_text(encoding="utf-8"))["figures"]
    for key in keys:
        value = value / 1e6 if key == "1e6" else value[int(key)] if isinstance(value, list) else value[key]
    return 100 * value if record.endswith("%") else value


def occurrences(snippet: str, text: str) -> int:
    """How often a snippet stands in a text, its braces dropped; never in the middle of a word or a number."""
    words = re.escape(" ".join(NUMBER.sub(r"\1", snippet).split()))
    return len(re.findall(rf"(?<![\w.,+−-]){words}(?!\w|[.,]\d)", " ".join(text.split())))


@pytest.mark.parametrize(("number", "record"), MARKED)
def test_a_marked_number_is_the_recorded_one(number, record):
    digits, value = len(number.partition(".")[2]), recorded(record)
    shown = f"{value:+,.{digits}f}" if number[0] in "+-−" else f"{abs(value):,.{digits}f}"
    assert shown == number.replace("−", "-")


@pytest.mark.parametrize(("page", "snippet", "records"), SNIPPETS)
def test_a_snippet_occurs_once_on_its_page(page, snippet, records):
    assert occurrences(snippet, (ROOT / page).read_text(encoding="utf-8")) == 1, "mend numbers.yaml or the page"


def test_a_snippet_is_a_whole_number_with_its_words():
    assert occurrences("take {60} s", "It takes 60 s; others take\n60 s.") == 1
    assert occurrences("take {60}", "take 60.5, take 60,000, take 601, stake 60") == 0


def test_numbers_of_the_advice_stand_on_the_pages_it_links_to():
    page = ROOT / "results" / "which-loss-first.md"
    for part in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        linked = [page.parent / target for target in re.findall(r"\]\(([\w/.-]+\.md)", part)]
        told = "".join(each.read_text(encoding="utf-8") for each in (*linked, page.parent / "index.md"))
        unmarked = re.findall(r"\d+\.\d+", part)
        assert [number for number in unmarked if number not in told] == [], part
