"""``similis tournament``: from a plan file to a report."""

import pytest
import yaml

from tests.cli.test_main import ended
from tests.study.small import values


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(values(search={"trials": 1, "epochs": 1, "strategy": "random"})))
    return path


def test_plan_shows_the_cost_and_runs_nothing(file, tmp_path, capsys):
    assert ended(["tournament", "plan", str(file)]) == 0
    out = capsys.readouterr().out
    assert "R@1 of a repetition varies by" in " ".join(out.split())
    assert "which open the test split 4 times: at most about" in out
    assert "loss_multiplier, margin_cos, scale" in " ".join(out.split()) or "margin_cos" in out
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.slow
def test_run_add_report_pack(file, tmp_path, capsys):
    folder = tmp_path / "out"
    assert ended(["tournament", "run", str(file), "--folder", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.count("done  search-") == 4
    assert said.count("done  final-") == 4
    assert (folder / "report.html").exists()
    assert ended(["tournament", "run", str(folder), "--add", "triplet"]) == 0
    assert capsys.readouterr().out.count("done  final-") == 2, "the added loss alone"
    assert ended(["tournament", "report", str(folder), "--no-times", "--out", str(tmp_path / "again"), "--pack"]) == 0
    text = (tmp_path / "again" / "report.md").read_text()
    assert "triplet" in text
    assert "seconds of training" not in text
    said = capsys.readouterr().out
    assert all(str(file) in said for file in (tmp_path / "again" / "report.md", folder / "records.parquet"))
    assert ended(["tournament", "run", str(folder), "--folder", str(tmp_path / "other"), "--only", "triplet"]) == 0
    assert capsys.readouterr().out.count("done  final-") == 2, "the plan of a folder in another one"
