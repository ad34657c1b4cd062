"""The run folder: files appear whole, lines that cannot be read are left out, lines beyond a checkpoint go."""

import pytest

from similis.training.files import DamagedError
from similis.training.folder import RunFolder


def test_files_are_read_as_written(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert folder.read("spec.json") is None
    folder.write("spec.json", {"b": 1, "a": [1, 2]})
    assert folder.read("spec.json") == {"a": [1, 2], "b": 1}
    assert [p.name for p in folder.path.iterdir()] == ["spec.json"]


@pytest.mark.parametrize("text", ["", "[]", "5", "null", '{"a"', "\0\0", "[" * 100000])
def test_a_file_that_holds_no_mapping_is_damaged(text, tmp_path):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(DamagedError, match=r"result.json is missing or damaged \(.+\); delete it"):
        RunFolder(tmp_path).read("result.json")


def test_a_line_cut_by_a_crash_is_no_record(tmp_path, caplog):
    folder = RunFolder(tmp_path)
    folder.log({"stage": "select", "step": 1})
    with folder.metrics.open("a") as file:
        file.write('{"stage": "sel')
    assert list(folder.records()) == [{"stage": "select", "step": 1}]
    assert not caplog.text  # a crash leaves such a line, and it is written again
    folder.log({"stage": "select", "step": 2})  # at the end of the cut one
    folder.log({"stage": "select", "step": 3})
    assert [record["step"] for record in folder.records()] == [1, 3]
    assert "1 of 3 lines" in caplog.text


def test_lines_of_garbage_are_left_out(tmp_path, caplog):
    folder = RunFolder(tmp_path)
    folder.metrics.write_bytes(b'\xff\xfe\n5\n{}\n[]\n{"stage": "select", "step": 1}\n')
    assert list(folder.records()) == [{"stage": "select", "step": 1}]
    assert "4 of 5 lines" in caplog.text


def test_lines_beyond_a_checkpoint_are_dropped_for_that_stage_only(tmp_path):
    folder = RunFolder(tmp_path)
    for stage in ("select", "refit"):
        for step in (1, 2, 3):
            folder.log({"stage": stage, "step": step})
        folder.log({"stage": stage, "step": 1, "epoch": 2})
    folder.forget_after("refit", 1, epoch=1)
    kept = [(r["stage"], r["step"]) for r in folder.records()]
    assert kept == [*(("select", step) for step in (1, 2, 3, 1)), ("refit", 1)]


def test_a_finished_run_keeps_no_halves(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write("result.json", {})
    halves = (".checkpoint-select.safetensors.123", ".metrics.7")
    for name in (*halves, "checkpoint-select.safetensors", "model.safetensors"):
        (tmp_path / name).touch()
    folder.tidy(["checkpoint-select.safetensors", "checkpoint-refit.safetensors"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.safetensors", "result.json"]
