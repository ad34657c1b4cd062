"""The tables of README and of the results pages are what their committed records give."""

import json

from benchmarks import fine_tuning, floors, verdict_rules
from tests.docs.blocks import ROOT

RESULTS = ROOT / "results"


def page_lines(name: str) -> list[str]:
    return (RESULTS / name).read_text(encoding="utf-8").splitlines()


def figures(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))["figures"]


def test_the_page_of_photos_shows_the_floors():
    page, found = page_lines("photos.md"), figures("floors.json")
    assert found
    assert [row for row in (floors.page_row(name, each) for name, each in found.items()) if row not in page] == []


def test_the_page_of_fine_tuning_shows_its_records():
    page, found = page_lines("fine-tuning.md"), figures("fine-tuning.json")
    rows = {name: fine_tuning.page_row(name, row) for name, row in found.items()}
    assert [row for row in rows.values() if row not in page] == []
    trained = [row for row in found.values() if row["share"] > 0]
    assert all(row[key][1] > 0 for row in trained for key in row if key.startswith("gain"))  # "every interval above"


def test_every_withdrawn_record_is_named_on_its_page():
    page = (RESULTS / "withdrawn" / "index.md").read_text(encoding="utf-8")
    files = sorted(path.name for path in (RESULTS / "withdrawn").glob("*.parquet"))
    assert files
    assert [name for name in files if f"`{name}`" not in page] == []


def test_the_decision_shows_the_measured_error_and_power():
    page = (ROOT / "docs" / "decisions" / "0006-judgement.md").read_text(encoding="utf-8").splitlines()
    found = figures("verdict-rules.json")
    assert [row for row in verdict_rules.page_rows(found) if row not in page] == []
    pairs = (v for row, each in found.items() if row.startswith("all") for v in each.values())
    assert max(error for values in pairs for error in values["error"].values()) <= 0.06
    looks = [v for row, each in found.items() if row.startswith("compare") for v in each.values()]
    assert max(max(values["error"], values["false equivalence"]) for values in looks) <= 0.06
