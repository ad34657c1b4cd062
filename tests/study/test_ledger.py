"""The ledger: one line for each model, written before the look, complete after any crash."""

import pytest

from similis.study.ledger import Ledger
from similis.values import DataError


def test_a_model_is_noted_once(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for model in ("b", "a", "b"):
        ledger.note(model, why="finished", contestant="x")
    assert [entry["model"] for entry in ledger.entries()] == ["a", "b"]


def test_a_half_line_is_no_opening(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.note("a", why="finished")
    with ledger.path.open("a") as file:
        file.write('{"model": "b"')
    assert [entry["model"] for entry in ledger.entries()] == ["a"]
    ledger.note("b", why="finished")
    assert [entry["model"] for entry in ledger.entries()] == ["a", "b"]


def test_results_without_an_entry_are_not_shown(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.note("a")
    ledger.check([{"name": "a"}])
    with pytest.raises(DataError, match=r"without an entry in .*: b;"):
        ledger.check([{"name": "a"}, {"name": "b"}])


def test_a_damaged_ledger_is_an_error(tmp_path):
    (tmp_path / "ledger.jsonl").write_text("nonsense\n")
    with pytest.raises(DataError, match="damaged"):
        Ledger(tmp_path / "ledger.jsonl").entries()
