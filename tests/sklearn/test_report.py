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


def test_a_table_has_a_metric(wine, tmp_path, capsys):
    assert ended(["metric", str(wine), "--label", "cultivar", "-o", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "178 rows, 13 columns, 3 classes" in shown
    assert "left out, not numbers: note" in shown
    before, after = (float(line.split("±")[0].split()[-1]) for line in shown.splitlines() if "±" in line)
    assert after > before > 90
    rows, shares = (
        list(csv.reader((tmp_path / name).read_text().splitlines())) for name in ("matrix.csv", "shares.csv")
    )
    assert sorted(name for name, _ in shares[1:]) == sorted(load_wine().feature_names)
    assert sum(float(share) for _, share in shares[1:]) == pytest.approx(1)
    matrix = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    assert rows[0][1:] == list(load_wine().feature_names)
    assert matrix == pytest.approx(matrix.T)
    assert np.linalg.eigvalsh(matrix)[0] > -1e-9


def test_a_kernel_has_no_shares(wine, tmp_path):
    assert ended(["metric", str(wine), "--label", "cultivar", "--kernel", "rbf", "-o", str(tmp_path)]) == 0
    assert not any(tmp_path.iterdir())


def test_rows_without_a_label_are_refused():
    with pytest.raises(DataError, match="1 rows without a label"):
        parse_table({"height": ["1", "2"], "kind": ["a", ""]}, "kind")


def test_the_interval_is_corrected_for_shared_rows():
    scores = [0.9, 1.0, 0.8, 0.9, 1.0]
    found = interval(scores, 5)
    plain = 2.776445 * np.std(scores, ddof=1) / np.sqrt(5)
    assert found.half == pytest.approx(plain * np.sqrt(5 * (1 / 5 + 1 / 4)), rel=1e-5)
