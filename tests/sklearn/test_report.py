"""The verb for tables, and its report."""

import csv
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

from similis.sklearn.report import interval, parse_table
from similis.values import DataError
from tests.cli.test_main import ended


@pytest.fixture(scope="module")
def wine(tmp_path_factory) -> Path:
    """The wine table with a column of words."""
    bunch = load_wine()
    place = tmp_path_factory.mktemp("tables") / "wine.csv"
    with place.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*bunch.feature_names, "note", "cultivar"])
        for row, target in zip(bunch.data, bunch.target, strict=True):
            writer.writerow([*row, "words, with comma", f"kind {target}"])
    return place


def test_a_table_becomes_a_report(wine, tmp_path, capsys):
    assert ended(["metric", str(wine), "--label", "cultivar", "-o", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    text = (tmp_path / "report.md").read_text()
    assert "178 rows, 13 columns, 3 classes" in shown
    assert "left out, not numbers: note" in shown
    assert "note" in text.splitlines()[-1]
    before, after = (float(line.split("|")[2].split("±")[0]) for line in text.splitlines() if "±" in line)
    assert after > before > 90
    rows = list(csv.reader((tmp_path / "matrix.csv").read_text().splitlines()))
    matrix = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    assert rows[0][1:] == list(load_wine().feature_names)
    assert matrix == pytest.approx(matrix.T)
    assert np.linalg.eigvalsh(matrix)[0] > -1e-9


def test_a_kernel_has_no_shares(wine, tmp_path):
    assert ended(["metric", str(wine), "--label", "cultivar", "--kernel", "rbf", "-o", str(tmp_path)]) == 0
    assert "share" not in (tmp_path / "report.md").read_text()
    assert not (tmp_path / "matrix.csv").exists()


def test_what_a_table_cannot_be_is_said(wine, capsys):
    assert ended(["metric", str(wine), "--label", "kind"]) == 1
    assert "there is no column 'kind'; the columns are: alcohol" in capsys.readouterr().err
    assert ended(["metric", str(wine), "--label", "cultivar", "--objective", "ncaa"]) == 2
    assert "did you mean 'nca'" in capsys.readouterr().err
    with pytest.raises(DataError, match="missing in: height"):
        parse_table({"height": ["1", ""], "kind": ["a", "b"]}, "kind")
    with pytest.raises(DataError, match="holds numbers only"):
        parse_table({"word": ["x", "y"], "kind": ["a", "b"]}, "kind")
    with pytest.raises(DataError, match="1 rows without a label"):
        parse_table({"height": ["1", "2"], "kind": ["a", ""]}, "kind")


def test_the_interval_is_corrected_for_shared_rows():
    scores = [0.9, 1.0, 0.8, 0.9, 1.0]
    found = interval(scores, 5)
    plain = 2.776445 * np.std(scores, ddof=1) / np.sqrt(5)
    assert found.half == pytest.approx(plain * np.sqrt(5 * (1 / 5 + 1 / 4)), rel=1e-5)
