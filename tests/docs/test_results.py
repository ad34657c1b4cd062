"""The tables of README and of the results pages are what their committed records give."""

import json

import pytest

from benchmarks.fine_tuning import page_row
from benchmarks.studies import STUDIES, birds
from benchmarks.study_cells import RESULTS, cells, floors
from benchmarks.verdict_rules import page_rows
from similis.registry import losses
from similis.study.report.tables import samplers_differ
from similis.study.statistics.fair_table import fair_table
from tests.docs.blocks import ROOT


def page_of(study: str):
    folder = RESULTS / study
    return folder / "index.md" if folder.is_dir() else RESULTS / f"{study}.md"


@pytest.mark.parametrize("study", STUDIES)
def test_a_page_shows_the_tables_of_its_records(study):
    page = page_of(study).read_text(encoding="utf-8")
    tables, _ = STUDIES[study](RESULTS / study)
    assert tables
    missing = [line for table in tables for line in table.lines() if line not in page.splitlines()]
    assert missing == []
    assert all("\n".join(table.lines()) in page for table in tables), "a row more, or in another order"


def test_every_page_of_records_is_compared():
    pages = {folder.name for folder in RESULTS.iterdir() if (folder / "index.md").exists()}
    assert pages <= set(STUDIES)


def test_the_table_of_the_readme_is_that_of_the_records():
    (table,), _ = birds(RESULTS / "cub-tournament")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n".join(table.lines()) in readme
    shown = {line.split("|")[1].strip(" `") for line in readme.splitlines() if line.startswith("| `")}
    assert {name for (name,) in cells(RESULTS / "cub-tournament", "contestant")} <= shown


def test_the_floor_is_below_what_trained_and_above_what_did_not():
    """The page says that proxy_repulsion does not beat the untrained head, and that frozen 224 pixels beat all."""
    means = {
        name: 100 * sum(r["test"]["recall@1"] for r in rows) / len(rows)
        for (name,), rows in cells(RESULTS / "cub-tournament", "contestant").items()
    }
    untrained = sum(floors("cub-96 untrained")) / len(floors("cub-96 untrained"))
    assert [name for name, mean in means.items() if mean < untrained] == ["proxy_repulsion"]
    assert floors("cub-224 frozen")[0] > max(means.values())


def test_a_report_does_not_call_different_samplers_equal():
    rows = [row for own in cells(RESULTS / "cub-tournament", "contestant").values() for row in own]
    assert {losses.get(row["loss"]).sampler for row in rows} == {"balanced", "random"}
    assert samplers_differ([fair_table(rows)])
    report = (RESULTS / "cub-tournament" / "report.md").read_text(encoding="utf-8")
    (line,) = (line for line in report.splitlines() if line.startswith("Allowed to differ"))
    assert "its sampler" in line


def test_the_page_of_fine_tuning_shows_its_records():
    page = (RESULTS / "fine-tuning.md").read_text(encoding="utf-8").splitlines()
    found = json.loads((RESULTS / "fine-tuning.json").read_text(encoding="utf-8"))["figures"]
    assert [row for name, row in ((name, page_row(name, row)) for name, row in found.items()) if row not in page] == []
    trained = [row for row in found.values() if row["share"] > 0]
    assert all(row[key][1] > 0 for row in trained for key in row if key.startswith("gain"))  # "every interval above"


def test_the_decision_shows_the_measured_error_and_power():
    page = (ROOT / "docs" / "decisions" / "0006-judgement.md").read_text(encoding="utf-8").splitlines()
    figures = json.loads((RESULTS / "verdict-rules.json").read_text(encoding="utf-8"))["figures"]
    assert [row for row in page_rows(figures) if row not in page] == []
    pairs = (v for row, found in figures.items() if row.startswith("all") for v in found.values())
    assert max(error for values in pairs for error in values["error"].values()) <= 0.06
    looks = [v for row, found in figures.items() if row.startswith("compare") for v in found.values()]
    assert max(max(values["error"], values["false equivalence"]) for values in looks) <= 0.06
